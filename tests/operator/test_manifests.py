"""The Deployment: golden files for the examples, and what must hold for all of them.

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

from pumas_crds.served_model import ServedModel, Source
from pumas_crds.serving_profile import BUILT_IN_DEFAULT, ServingProfile
from pumas_crds.worker_spec import WorkerSpec
from pumas_operator.manifests import (
    SPEC_HASH_ANNOTATION,
    Settings,
    build_deployment,
    effective,
    spec_hash,
)
from support.models import served_model, serving_profile

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[2] / "crds" / "examples"
SETTINGS = Settings(image="registry.example/pumas-serving:1")


def example_models() -> list[Any]:
    """Each example that runs pods, with its profile and where its Deployment is written down."""
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
    assert model.spec.source and model.spec.source.path
    path = os.path.normpath(f"/project/crds/examples/local/{model.spec.source.path}")
    if model.spec.source.path.startswith("/"):
        path = model.spec.source.path
    spec = model.spec.model_copy(update={"source": Source(path=path)})
    return model.model_copy(update={"spec": spec})


@pytest.mark.parametrize(("name", "model", "profile"), example_models())
def test_the_deployment_of_an_example(
    name: str, model: ServedModel, profile: ServingProfile
) -> None:
    deployment = build_deployment(model, profile, SETTINGS)
    golden = GOLDEN / f"{name}.yaml"
    # Through JSON, so that repeated parts are written out and not as YAML anchors.
    written = yaml.safe_dump(json.loads(json.dumps(deployment)), sort_keys=False, width=1000)
    if os.environ.get("PUMAS_UPDATE_GOLDEN"):
        golden.write_text(written, "utf-8")
    assert golden.read_text("utf-8") == written, "PUMAS_UPDATE_GOLDEN=1 writes it anew"


def deployment(profile: ServingProfile = BUILT_IN_DEFAULT, **spec: Any) -> Any:
    return build_deployment(served_model(**spec), profile, SETTINGS)


def pod(**spec: Any) -> Any:
    return deployment(**spec)["spec"]["template"]["spec"]


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
        (
            {"gpuLayers": 0},
            {"gpuLayers": 9, "parallel": 2},
            {"gpuLayers": 0, "parallel": 2},
        ),
    ],
)
def test_the_models_engine_settings_go_over_the_profiles(
    own: dict[str, int], of_the_profile: dict[str, int], expected: dict[str, int]
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


def test_it_obeys_the_restricted_pod_security_standard() -> None:
    spec = pod()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


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


def test_the_model_owns_it_and_nobody_waits_for_it() -> None:
    (owner,) = deployment()["metadata"]["ownerReferences"]
    assert owner["uid"] == "uid-of-tiny"
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is False


def test_the_selector_selects_the_template() -> None:
    spec = deployment()["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()


def test_the_hash_tells_one_pod_from_another() -> None:
    first = digest(deployment())
    assert first == digest(deployment()), "it is a function of the desired state"
    image = Settings(image="registry.example/pumas-serving:2")
    others = [
        deployment(engine={"parallel": 2}),
        deployment(drainSeconds=31),
        deployment(source={"path": "/weights/other.gguf"}),
        deployment(serving_profile(engine={"parallel": 3})),
        build_deployment(served_model(), BUILT_IN_DEFAULT, image),
    ]
    digests = {first, *map(digest, others)}
    assert len(digests) == len(others) + 1


@pytest.mark.parametrize("spec", [{"catalogue": {"displayName": "T"}}, {"drainSeconds": 30}])
def test_what_makes_no_other_pod_makes_no_other_hash(spec: dict[str, Any]) -> None:
    assert digest(deployment(**spec)) == digest(deployment())


def test_the_hash_does_not_depend_on_the_order_of_members() -> None:
    assert spec_hash({"a": 1, "b": 2}) == spec_hash({"b": 2, "a": 1})


def test_a_model_of_an_external_server_has_no_deployment() -> None:
    model = served_model(runtime="external", endpoint={"url": "http://far.example"})
    with pytest.raises(ValueError, match="has no source"):
        build_deployment(model, BUILT_IN_DEFAULT, SETTINGS)
