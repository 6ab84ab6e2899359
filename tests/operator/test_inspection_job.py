"""The inspection Job: small, bounded, without an accelerator, one for each source."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.serving_profile import BUILT_IN_DEFAULT, ServingProfile
from pumas_crds.vocabulary import Variable
from pumas_crds.worker_spec import WorkerSpec
from pumas_operator.inspection_job import build_inspection_job, inspection_hash
from pumas_operator.manifests import Settings
from support.models import external_model, served_model, serving_profile

SETTINGS = Settings(image="registry.example/pumas-serving:1")
REMOTE = {"http": {"url": "http://h/tiny.gguf"}}
PLACED = serving_profile(
    resources={"limits": {"nvidia.com/gpu": 1, "memory": "40Gi"}},
    runtimeClassName="nvidia",
    nodeSelector={"gpu": "yes"},
    tolerations=[{"key": "gpu"}],
    affinity={"nodeAffinity": {}},
    priorityClassName="high",
    imagePullSecrets=[{"name": "registry"}],
    caBundle={"name": "authorities"},
    env=[{"name": "HF_ENDPOINT", "value": "https://hub.example"}],
    cache={"persistentVolumeClaim": {"claimName": "cache"}},
    podLabels={"team": "a"},
    podAnnotations={"note": "b"},
)


def job(profile: ServingProfile = BUILT_IN_DEFAULT, **spec: Any) -> Any:
    return build_inspection_job(served_model(**spec), profile, SETTINGS)


def pod(profile: ServingProfile = BUILT_IN_DEFAULT, **spec: Any) -> Any:
    return job(profile, **spec)["spec"]["template"]["spec"]


def test_another_source_digest_or_task_is_another_job() -> None:
    changed: list[dict[str, Any]] = [
        {},
        {"source": {"path": "/weights/other.gguf"}},
        {"source": REMOTE},
        {"sha256": "0" * 64},
        {"task": "text-generation"},
        {"projector": {"path": "/weights/eyes.gguf"}},
        {"projector": REMOTE},
        {"runtime": "onnxruntime"},
        {"runtime": "onnxruntime", "engine": {"steps": 4}},
        {"runtime": "onnxruntime", "engine": {"guidancePercent": 4}},
    ]
    names = [job(**spec)["metadata"]["name"] for spec in changed]
    assert len(set(names)) == len(changed)


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 3},
        {"engine": {"parallel": 2}},
        {"engine": {"contextTokens": 512}},
        {"suspend": True},
        {"alias": "other"},
    ],
)
def test_an_unchanged_source_is_not_inspected_again(spec: dict[str, Any]) -> None:
    assert inspection_hash(served_model(**spec)) == inspection_hash(served_model())
    assert job(**spec)["metadata"]["name"] == job()["metadata"]["name"]


def test_it_ends_by_itself_and_is_collected() -> None:
    spec = job()["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (2, 120)
    assert spec["activeDeadlineSeconds"] == 3600
    assert pod()["restartPolicy"] == "Never"


def test_it_asks_for_little_whatever_the_profile_says() -> None:
    (container,) = pod(PLACED, source=REMOTE)["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"cpu": "1", "memory": "512Mi"},
    }
    assert container["command"] == ["python", "-m", "pumas_server.worker", "inspect"]


def test_it_runs_where_the_file_is_and_otherwise_anywhere() -> None:
    placement = {"runtimeClassName", "nodeSelector", "tolerations", "affinity"}
    assert placement <= pod(PLACED).keys()
    assert not placement & pod(PLACED, source=REMOTE).keys()


def test_it_is_told_what_fetching_is_told() -> None:
    spec = pod(PLACED, source=REMOTE, sha256="0" * 64)
    (container,) = spec["containers"]
    told = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert told["HF_ENDPOINT"] == "https://hub.example"
    assert told["SSL_CERT_FILE"] == "/etc/pumas/ca/ca.crt"
    worker = WorkerSpec.model_validate_json(told[Variable.WORKER])
    assert worker.source.http is not None and worker.sha256 == "0" * 64
    assert (spec["priorityClassName"], spec["imagePullSecrets"]) == ("high", [{"name": "registry"}])
    metadata = job(PLACED)["spec"]["template"]["metadata"]
    assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("a", "b")


def test_it_holds_no_key_and_keeps_no_file() -> None:
    volumes = {volume["name"]: volume for volume in pod(PLACED, source=REMOTE)["volumes"]}
    assert volumes.keys() == {"models", "run", "ca"}
    assert volumes["models"] == {"name": "models", "emptyDir": {}}


def test_a_model_without_a_file_of_ours_has_none() -> None:
    model = external_model("http://far.example")
    assert inspection_hash(model) == ""
    with pytest.raises(ValueError, match="no source"):
        build_inspection_job(model, BUILT_IN_DEFAULT, SETTINGS)


def test_it_looks_at_the_projector_too() -> None:
    spec = pod(source=REMOTE, projector={"path": "/weights/eyes.gguf"})
    (container,) = spec["containers"]
    told = {v["name"]: v.get("value") for v in container["env"]}
    asked = WorkerSpec.model_validate_json(told[Variable.WORKER])
    assert asked.projector is not None and asked.projector.path == "/weights/eyes.gguf"
    assert "/weights" in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_it_is_told_no_more_of_the_engine_than_its_verdict_hangs_on() -> None:
    spec = pod(runtime="onnxruntime", engine={"steps": 4, "device": "cuda", "parallel": 3})
    (container,) = spec["containers"]
    told = {v["name"]: v.get("value") for v in container["env"]}
    asked = WorkerSpec.model_validate_json(told[Variable.WORKER])
    assert asked.engine.model_dump(exclude_none=True) == {"steps": 4}


def test_it_runs_on_the_node_that_has_the_projector() -> None:
    assert "nodeSelector" not in pod(PLACED, source=REMOTE)
    placed = pod(PLACED, source=REMOTE, projector={"path": "/weights/eyes.gguf"})
    assert placed["nodeSelector"] == {"gpu": "yes"}
