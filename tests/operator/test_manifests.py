"""All children of the examples as golden files, and what must hold for every Deployment.

`PUMAS_UPDATE_GOLDEN=1` writes the golden files anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import BUILT_IN_DEFAULT, ServingProfile
from pumas_crds.source import Source
from pumas_crds.vocabulary import SPEC_HASH_ANNOTATION
from pumas_crds.worker_spec import WorkerSpec
from pumas_operator.children import build_children
from pumas_operator.inspection_job import build_inspection_job
from pumas_operator.labels import selector_text
from pumas_operator.manifests import (
    Settings,
    build_deployment,
    effective,
    select_image,
    spec_hash,
)
from support.kubernetes import written
from support.models import served_model, serving_profile
from support.pod_security import violations

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "crds" / "examples"
SETTINGS = Settings(image="registry.example/pumas-serving:1")


def example_models() -> list[Any]:
    """Each example that runs pods, with its profile and where its children are written down."""
    cases = []
    for path in sorted([*EXAMPLES.glob("local/*.yaml"), *EXAMPLES.glob("cluster/*.yaml")]):
        documents = [d for d in yaml.safe_load_all(path.read_text("utf-8")) if d]
        profiles = {"default": BUILT_IN_DEFAULT} | {
            d["metadata"]["name"]: ServingProfile.model_validate(d)
            for d in documents
            if d["kind"] == "ServingProfile"
        }
        for document in documents:
            if document["kind"] == "ServedModel" and "source" in document["spec"]:
                document["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
                model = placed(ServedModel.model_validate(document))
                name = f"{path.parent.name}-{model.metadata.name}"
                cases.append(pytest.param(name, model, profiles[model.profile], id=name))
    assert cases
    return cases


def placed(model: ServedModel) -> ServedModel:
    """The model with the absolute path that a relative one of a manifest file becomes."""
    named = {"source": model.spec.source, "projector": model.spec.projector}
    absolute = {
        field: Source(path=os.path.normpath(f"/project/crds/examples/local/{source.path}"))
        for field, source in named.items()
        if source is not None and source.path is not None and not source.path.startswith("/")
    }
    return model.model_copy(update={"spec": model.spec.model_copy(update=absolute)})


@pytest.mark.parametrize(("name", "model", "profile"), example_models())
def test_the_children_of_an_example(name: str, model: ServedModel, profile: ServingProfile) -> None:
    children = [
        *build_children(model, profile, SETTINGS, "the-key"),
        build_inspection_job(model, profile, SETTINGS),
    ]
    golden = GOLDEN / f"{name}.yaml"
    text = "---\n".join(map(written, children))
    if os.environ.get("PUMAS_UPDATE_GOLDEN"):
        golden.write_text(text, "utf-8")
    assert golden.read_text("utf-8") == text, "PUMAS_UPDATE_GOLDEN=1 writes it anew"


def test_no_golden_file_is_left_over() -> None:
    names = {str(case.values[0]) for case in example_models()}
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == names


def deployment(profile: ServingProfile = BUILT_IN_DEFAULT, **spec: Any) -> Any:
    return build_deployment(served_model(**spec), profile, SETTINGS)


def pod(**spec: Any) -> Any:
    return pod_of(deployment(**spec))


def pod_of(deployment: Any) -> Any:
    return deployment["spec"]["template"]["spec"]


def digest(deployment: Any) -> str:
    found = deployment["spec"]["template"]["metadata"]["annotations"][SPEC_HASH_ANNOTATION]
    assert isinstance(found, str)
    return found


def variables(container: Any) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in container["env"]}


def mounts(pod: Any) -> dict[str, Any]:
    """Mount path → volume."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    (container,) = pod["containers"]
    return {m["mountPath"]: volumes[m["name"]] for m in container["volumeMounts"]}


@pytest.mark.parametrize(
    ("own", "of_the_profile", "expected"),
    [
        ({}, {}, {}),
        ({}, {"parallel": 2}, {"parallel": 2}),
        ({"parallel": 1}, {"parallel": 2}, {"parallel": 1}),
        ({}, {"extraArgs": ["--swa-full"]}, {"extraArgs": ("--swa-full",)}),
        ({"extraArgs": []}, {"extraArgs": ["--swa-full"]}, {"extraArgs": ()}),
        (
            {"gpuLayers": 0},
            {"gpuLayers": 9, "parallel": 2},
            {"gpuLayers": 0, "parallel": 2},
        ),
    ],
)
def test_the_models_engine_settings_go_over_the_profiles(
    own: dict[str, Any], of_the_profile: dict[str, Any], expected: dict[str, Any]
) -> None:
    profile = serving_profile(engine=of_the_profile)
    worker = effective(served_model(engine=own), profile, SETTINGS)
    assert worker.engine.model_dump(by_alias=True, exclude_none=True) == expected


@pytest.mark.parametrize(
    ("own", "of_the_profile", "expected"),
    [(None, None, 30), (None, 7, 7), (0, 7, 0), (5, None, 5)],
)
def test_drain_seconds_and_the_grace_that_goes_with_them(
    own: int | None, of_the_profile: int | None, expected: int
) -> None:
    profile = serving_profile(drainSeconds=of_the_profile)
    built = deployment(profile, drainSeconds=own)
    assert built["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == expected + 20


def test_the_worker_is_told_everything_and_can_parse_it() -> None:
    template = "a $(POD_IP) b $$ c \\ d 'é'"
    model = served_model(
        alias="team/chat",
        sha256="0" * 64,
        task="text-generation",
        engine={"chatTemplate": template, "contextTokens": 512},
    )
    built: Any = build_deployment(model, BUILT_IN_DEFAULT, SETTINGS)
    spec = built["spec"]["template"]["spec"]
    for container in (*spec["initContainers"], *spec["containers"]):
        told = variables(container)["PUMAS_WORKER"]
        assert "$" not in told, "Kubernetes would expand it"
        worker = WorkerSpec.model_validate_json(told)
        expected = effective(model, BUILT_IN_DEFAULT, SETTINGS)
        assert worker == expected.model_copy(update={"spec_hash": digest(built)})
        assert worker.engine.chat_template == template


def test_local_settings_reach_the_worker() -> None:
    settings = Settings(image="x", propagation_seconds=0)
    assert effective(served_model(), BUILT_IN_DEFAULT, settings).propagation_seconds == 0


def test_ports_and_address_stand_only_in_variables_and_in_the_ports_own_list() -> None:
    (server,) = pod()["containers"]
    values = variables(server)
    assert values["ENGINE_PORT"] == "8080" and values["SUPERVISOR_PORT"] == "8081"
    assert values["POD_IP"] is None
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server[probe]["httpGet"]["port"] == "supervisor"
    rest = json.dumps({key: server[key] for key in server if key not in ("env", "ports")})
    assert not re.search("808[01]", rest)


def test_a_pod_starts_within_ten_minutes_or_is_started_anew() -> None:
    startup = pod()["containers"][0]["startupProbe"]
    assert startup["httpGet"]["path"] == "/readyz"
    assert startup["periodSeconds"] * startup["failureThreshold"] == 600


@pytest.mark.parametrize(("name", "model", "profile"), example_models())
def test_pods_obey_the_restricted_pod_security_standard(
    name: str, model: ServedModel, profile: ServingProfile
) -> None:
    assert model.spec.source
    expected = ["volume source is of type hostPath"] if model.spec.source.path else []
    for build in (build_deployment, build_inspection_job):
        workload: Any = build(model, profile, SETTINGS)
        spec = workload["spec"]["template"]["spec"]
        assert violations(spec) == expected
        assert spec["automountServiceAccountToken"] is False


def test_the_key_is_a_secret_that_only_the_pods_group_reads() -> None:
    spec = pod()
    secret = mounts(spec)["/run/pumas/key"]["secret"]
    assert secret["secretName"] == "tiny-engine-key"
    assert secret["defaultMode"] == 0o400
    assert "fsGroup" in spec["securityContext"], "else the file is root's, and we are not root"


@pytest.mark.parametrize(
    ("path", "mount", "kind"),
    [
        ("/weights/tiny.gguf", "/weights", "Directory"),
        ("/weights/deep/er/tiny.gguf", "/weights/deep/er", "Directory"),
        ("/models/tiny.gguf", "/models", "Directory"),
        ("/tiny.gguf", "/tiny.gguf", "File"),
    ],
)
def test_a_path_is_served_where_it_lies_and_never_written(path: str, mount: str, kind: str) -> None:
    spec = pod(source={"path": path})
    assert mounts(spec)[mount]["hostPath"] == {"path": mount, "type": kind}
    for container in (*spec["initContainers"], *spec["containers"]):
        paths = [m["mountPath"] for m in container["volumeMounts"]]
        assert len(paths) == len(set(paths)), "Kubernetes refuses two mounts at one path"
        (own,) = [m for m in container["volumeMounts"] if m["mountPath"] == mount]
        assert own["readOnly"] is True


REMOTE = {"http": {"url": "http://h/tiny.gguf"}}


@pytest.mark.parametrize(
    ("cache", "volume"),
    [
        (None, {"emptyDir": {}}),
        ({"emptyDir": {"sizeLimit": "9Gi"}}, {"emptyDir": {"sizeLimit": "9Gi"}}),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            {"persistentVolumeClaim": {"claimName": "c"}},
        ),
    ],
)
def test_what_is_fetched_goes_into_the_cache(cache: Any, volume: dict[str, Any]) -> None:
    spec = pod_of(deployment(serving_profile(cache=cache), source=REMOTE))
    assert mounts(spec)["/models"] == {"name": "models", **volume}


def test_a_claim_is_mounted_to_be_read_and_needs_no_cache() -> None:
    source = {"persistentVolumeClaim": {"claimName": "weights", "path": "deep/tiny.gguf"}}
    mounted = mounts(pod(source=source))
    claim = mounted["/source"]["persistentVolumeClaim"]
    assert claim == {"claimName": "weights", "readOnly": True}
    assert "/models" not in mounted


@pytest.mark.parametrize(
    ("replicas", "rollout", "strategy"),
    [
        (0, "replace", {"type": "Recreate"}),
        (1, "replace", {"type": "Recreate"}),
        (2, "replace", {"maxSurge": 0, "maxUnavailable": 1}),
        (1, "surge", {"maxSurge": 1, "maxUnavailable": 0}),
        (3, "surge", {"maxSurge": 1, "maxUnavailable": 0}),
    ],
)
def test_how_pods_are_replaced(replicas: int, rollout: str, strategy: dict[str, Any]) -> None:
    if "maxSurge" in strategy:
        strategy = {"type": "RollingUpdate", "rollingUpdate": strategy}
    spec = deployment(serving_profile(rollout=rollout), replicas=replicas)["spec"]
    assert (spec["replicas"], spec["strategy"]) == (replicas, strategy)


def test_a_suspended_model_has_no_pods() -> None:
    assert deployment(replicas=3, suspend=True)["spec"]["replicas"] == 0


def test_a_rollout_may_take_as_long_as_fetching_and_loading_do() -> None:
    startup = pod()["containers"][0]["startupProbe"]
    load = startup["periodSeconds"] * startup["failureThreshold"]
    assert deployment()["spec"]["progressDeadlineSeconds"] == 7200 + load


def test_everything_that_a_profile_says_of_pods_is_there() -> None:
    profile = serving_profile(
        images={"llama.cpp": "registry.example/other:2"},
        resources={
            "requests": {"cpu": 2, "example.com/fpga": 1},
            "limits": {"memory": "1Gi", "nvidia.com/gpu": 1},
        },
        runtimeClassName="nvidia",
        nodeSelector={"a": "b"},
        tolerations=[{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}],
        affinity={"podAntiAffinity": {}},
        priorityClassName="high",
        serviceAccountName="models",
        imagePullSecrets=[{"name": "registry"}],
        env=[{"name": "HF_ENDPOINT", "value": "https://hub.example"}],
        caBundle={"name": "authorities", "key": "all.pem"},
        podLabels={"team": "a"},
        podAnnotations={"note": "b"},
        fsGroup=7,
        shmSize="1Gi",
    )
    template = deployment(profile)["spec"]["template"]
    spec, (server,), (fetch,) = (
        template["spec"],
        template["spec"]["containers"],
        template["spec"]["initContainers"],
    )
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["annotations"]["note"] == "b"
    assert server["image"] == fetch["image"] == "registry.example/other:2"
    assert server["resources"] == {
        "requests": {"cpu": "2", "example.com/fpga": "1"},
        "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"},
    }
    assert fetch["resources"] == {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["nodeSelector"] == {"a": "b"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}]
    assert spec["affinity"] == {"podAntiAffinity": {}}
    assert spec["priorityClassName"] == "high"
    assert spec["serviceAccountName"] == "models"
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["securityContext"]["fsGroup"] == 7
    for container in (server, fetch):
        assert variables(container)["HF_ENDPOINT"] == "https://hub.example"
        assert variables(container)["SSL_CERT_FILE"] == "/etc/pumas/ca/ca.crt"
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["ca"]["configMap"] == {
        "name": "authorities",
        "items": [{"key": "all.pem", "path": "ca.crt"}],
    }
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    mounted = [{m["name"]: m["mountPath"] for m in c["volumeMounts"]} for c in (server, fetch)]
    assert (mounted[0]["shm"], mounted[1]["ca"]) == ("/dev/shm", "/etc/pumas/ca")
    assert "ca" not in mounted[0] and "shm" not in mounted[1]


def test_a_profile_that_says_nothing_leaves_the_choice_to_kubernetes() -> None:
    spec = pod()
    fields = {"nodeSelector", "tolerations", "affinity", "runtimeClassName", "priorityClassName"}
    assert not fields & spec.keys()
    assert not any("resources" in c for c in (*spec["containers"], *spec["initContainers"]))


def test_a_profiles_variable_wins_over_the_bundles() -> None:
    profile = serving_profile(
        caBundle={"name": "c"}, env=[{"name": "SSL_CERT_FILE", "value": "/mine"}]
    )
    (server,) = pod_of(deployment(profile))["containers"]
    assert [v["value"] for v in server["env"] if v["name"] == "SSL_CERT_FILE"] == ["/mine"]


@pytest.mark.parametrize(
    ("runtime", "image"), [("llama.cpp", "x"), ("onnxruntime", "y"), ("external", None)]
)
def test_each_runtime_has_its_image_and_by_default_the_installations(
    runtime: Any, image: str | None
) -> None:
    profile = serving_profile(images={"llama.cpp": "x", "onnxruntime": "y"}).spec
    assert select_image(runtime, profile, SETTINGS) == (image or SETTINGS.image)
    assert select_image(runtime, serving_profile().spec, SETTINGS) == SETTINGS.image


CLAIM = {"persistentVolumeClaim": {"claimName": "weights", "path": "deep/tiny.gguf"}}
OTHER_CLAIM = {"persistentVolumeClaim": {"claimName": "eyes", "path": "p.gguf"}}
SAME_CLAIM = {"persistentVolumeClaim": {"claimName": "weights", "path": "p.gguf"}}
HUB = {"huggingFace": {"repo": "o/m", "file": "p.gguf"}}


@pytest.mark.parametrize(
    ("source", "projector", "volumes"),
    [
        # One volume serves both files that lie on it.
        ({"path": "/srv/m.gguf"}, {"path": "/srv/p.gguf"}, {"/srv": "source"}),
        (CLAIM, SAME_CLAIM, {"/source": "source"}),
        (REMOTE, HUB, {"/models": "models"}),
        # Two when they differ.
        ({"path": "/srv/m.gguf"}, {"path": "/eyes/p.gguf"},
         {"/srv": "source", "/eyes": "projector"}),
        (CLAIM, OTHER_CLAIM, {"/source": "source", "/projector": "projector"}),
        (CLAIM, {"path": "/eyes/p.gguf"}, {"/source": "source", "/eyes": "projector"}),
        ({"path": "/srv/m.gguf"}, HUB, {"/srv": "source", "/models": "models"}),
        (HUB, CLAIM, {"/models": "models", "/projector": "projector"}),
        ({"path": "/m.gguf"}, {"path": "/p.gguf"},
         {"/m.gguf": "source", "/p.gguf": "projector"}),
        ({"path": "/m.gguf"}, {"path": "/m.gguf"}, {"/m.gguf": "source"}),
        ({"path": "/srv/m.gguf"}, None, {"/srv": "source"}),
    ],
)  # fmt: skip
def test_the_volumes_of_weights_and_projector(
    source: Any, projector: Any, volumes: dict[str, str]
) -> None:
    spec = pod(source=source, **({"projector": projector} if projector else {}))
    found = {path: volume["name"] for path, volume in mounts(spec).items()}
    ours = {path: name for path, name in found.items() if name in ("source", "projector", "models")}
    assert ours == volumes
    names = [volume["name"] for volume in spec["volumes"]]
    assert len(names) == len(set(names))
    for container in (*spec["initContainers"], *spec["containers"]):
        paths = [m["mountPath"] for m in container["volumeMounts"]]
        assert len(paths) == len(set(paths)), "Kubernetes refuses two mounts at one path"


@pytest.mark.parametrize(
    ("path", "mount", "kind"),
    [
        ("/srv/m", "/srv/m", "Directory"),
        ("/srv/m/model.onnx", "/srv/m", "Directory"),
        ("/srv/m/onnx/model.onnx", "/srv/m", "Directory"),
        ("/model.onnx", "/model.onnx", "File"),
    ],
)
def test_an_onnx_model_is_mounted_with_all_its_files(path: str, mount: str, kind: str) -> None:
    spec = pod(runtime="onnxruntime", source={"path": path})
    assert mounts(spec)[mount]["hostPath"] == {"path": mount, "type": kind}


def test_of_a_profiles_settings_a_model_gets_those_of_its_runtime() -> None:
    profile = serving_profile(
        engine={"contextTokens": 512, "extraArgs": ["--swa-full"], "device": "cuda", "parallel": 2}
    )
    llama = effective(served_model(engine={"gpuLayers": 1}), profile, SETTINGS).engine
    assert llama.model_dump(exclude_none=True) == {
        "context_tokens": 512, "parallel": 2, "gpu_layers": 1, "extra_args": ("--swa-full",),
    }  # fmt: skip
    drawing = served_model(runtime="onnxruntime", engine={"steps": 4})
    onnx = effective(drawing, profile, SETTINGS).engine
    assert onnx.model_dump(exclude_none=True) == {"parallel": 2, "device": "cuda", "steps": 4}


def test_the_worker_is_told_of_the_projector() -> None:
    told = effective(served_model(projector=HUB), BUILT_IN_DEFAULT, SETTINGS).projector
    assert told == Source.model_validate(HUB)
    assert effective(served_model(), BUILT_IN_DEFAULT, SETTINGS).projector is None


def test_the_model_owns_it_and_nobody_waits_for_it() -> None:
    (owner,) = deployment()["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-of-tiny"
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is False


def test_the_selector_selects_the_template() -> None:
    spec = deployment()["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert selector_text(served_model()) == ",".join(
        f"{label}={value}" for label, value in spec["selector"]["matchLabels"].items()
    )


def test_a_model_of_the_same_name_does_not_select_its_predecessors_pods() -> None:
    model = served_model()
    metadata = model.metadata.model_copy(update={"uid": "another"})
    successor: Any = build_deployment(
        model.model_copy(update={"metadata": metadata}), BUILT_IN_DEFAULT, SETTINGS
    )
    labels = deployment()["spec"]["template"]["metadata"]["labels"]
    assert not successor["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_hash_tells_one_pod_from_another() -> None:
    first = digest(deployment())
    assert first == digest(deployment()), "it is a function of the desired state"
    image = Settings(image="registry.example/pumas-serving:2")
    others = [
        deployment(engine={"parallel": 2}),
        deployment(drainSeconds=31),
        deployment(source={"path": "/weights/other.gguf"}),
        deployment(projector={"path": "/weights/eyes.gguf"}),
        deployment(projector={"path": "/weights/ears.gguf"}),
        deployment(serving_profile(engine={"parallel": 3})),
        deployment(serving_profile(engine={"extraArgs": ["--swa-full"]})),
        deployment(serving_profile(podAnnotations={"note": "x"})),
        deployment(serving_profile(resources={"limits": {"memory": "1Gi"}})),
        build_deployment(served_model(), BUILT_IN_DEFAULT, image),
    ]
    digests = {first, *map(digest, others)}
    assert len(digests) == len(others) + 1


@pytest.mark.parametrize(
    "spec",
    [
        {"catalogue": {"displayName": "T"}},
        {"drainSeconds": 30},
        {"replicas": 3},
        {"suspend": True},
    ],
)
def test_what_makes_no_other_pod_makes_no_other_hash(spec: dict[str, Any]) -> None:
    assert digest(deployment(**spec)) == digest(deployment())


def test_the_hash_does_not_depend_on_the_order_of_members() -> None:
    assert spec_hash({"a": 1, "b": 2}) == spec_hash({"b": 2, "a": 1})


def test_a_model_of_an_external_server_has_no_deployment() -> None:
    model = served_model(runtime="external", endpoint={"url": "http://far.example"})
    with pytest.raises(ValueError, match="has no source"):
        build_deployment(model, BUILT_IN_DEFAULT, SETTINGS)
