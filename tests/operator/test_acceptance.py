"""Which models are refused before their file is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.vocabulary import Reason, Runtime
from pumas_operator.acceptance import build_refusal
from support.models import external_model, served_model, serving_profile

HUB = {"huggingFace": {"repo": "o/m", "file": "m.gguf"}}
CLAIM = {"persistentVolumeClaim": {"claimName": "c", "path": "m.gguf"}}


def http(url: str) -> dict[str, Any]:
    return {"http": {"url": url}}


@pytest.mark.parametrize(
    ("url", "allowed", "local", "accepted"),
    [
        ("http://127.0.0.1:9000", ["other.example"], True, True),
        ("http://127.3.2.1", ["other.example"], True, True),
        ("http://[::1]:9000/v1", ["other.example"], True, True),
        ("http://LocalHost:9000", ["other.example"], True, True),
        ("http://localhost.evil.example", ["other.example"], True, False),
        ("http://far.example", [], True, True),
        ("http://far.example", ["other.example"], True, False),
        ("http://FAR.example/v1", ["other.example", "Far.Example"], True, True),
        ("http://other.example.evil.example", ["other.example"], True, False),
        ("http://far.example", [], False, False),
        ("http://127.0.0.1:9000", [], False, False),
        ("http://127.0.0.1:9000", ["127.0.0.1"], False, True),
        ("https://far.example", ["far.example"], False, True),
        ("https://far.example", ["*"], False, True),
    ],
)
def test_which_endpoints_are_allowed(
    url: str, allowed: list[str], local: bool, accepted: bool
) -> None:
    profile = serving_profile("partners", allowedEndpointHosts=allowed)
    refusal = build_refusal(external_model(url).spec, profile, local=local)
    assert (refusal is None) is accepted
    if refusal is not None:
        assert refusal.reason is Reason.ENDPOINT_NOT_ALLOWED
        assert "partners" in refusal.message
        assert "example" not in refusal.message, "a status names no address"


@pytest.mark.parametrize(
    ("source", "profile", "accepted"),
    [
        (HUB, {}, True),
        (HUB, {"allowedSourceHosts": []}, False),
        (HUB, {"allowedSourceHosts": ["HuggingFace.co"]}, True),
        (HUB, {"env": [{"name": "HF_ENDPOINT", "value": "https://hub.example:8443/x"}]}, False),
        (
            HUB,
            {
                "env": [{"name": "HF_ENDPOINT", "value": "https://hub.example:8443/x"}],
                "allowedSourceHosts": ["hub.example"],
            },
            True,
        ),
        (HUB, {"env": [{"name": "HF_ENDPOINT", "value": "nonsense"}]}, False),
        (http("http://far.example/m.gguf"), {}, False),
        (http("http://FAR.example:81/m"), {"allowedSourceHosts": ["far.Example"]}, True),
        (http("http://far.example.evil/m"), {"allowedSourceHosts": ["far.example"]}, False),
        (http("http://far.example/m"), {"allowedSourceHosts": ["*"]}, True),
        (CLAIM, {}, True),
        ({"path": "/var/lib/models/m.gguf"}, {}, False),
        ({"path": "/var/lib/models/m.gguf"}, {"allowedHostPaths": ["/var/lib/models"]}, True),
        ({"path": "/var/lib/models/m.gguf"}, {"allowedHostPaths": ["/var/lib/models/"]}, True),
        ({"path": "/var/lib/models/m.gguf"}, {"allowedHostPaths": ["/srv", "/"]}, True),
        ({"path": "/var/lib/models2/m.gguf"}, {"allowedHostPaths": ["/var/lib/models"]}, False),
        ({"path": "/srv/../etc/m.gguf"}, {"allowedHostPaths": ["/srv"]}, False),
        ({"path": "srv/m.gguf"}, {"allowedHostPaths": ["/"]}, False),
    ],
)
def test_which_sources_are_allowed_in_a_cluster(
    source: dict[str, Any], profile: dict[str, Any], accepted: bool
) -> None:
    refusal = build_refusal(
        served_model(source=source).spec, serving_profile("p-1", **profile), local=False
    )
    assert (refusal is None) is accepted
    if refusal is not None:
        assert refusal.reason is Reason.SOURCE_NOT_ALLOWED
        assert "p-1" in refusal.message
        assert "example" not in refusal.message and "/" not in refusal.message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"source": HUB}, "source.huggingFace is not implemented in local mode"),
        ({"source": http("http://h/m")}, "source.http is not implemented in local mode"),
        ({"source": CLAIM}, "source.persistentVolumeClaim is not implemented in local mode"),
        ({"replicas": 2}, "replicas 2 is not implemented in local mode"),
    ],
)
def test_what_one_machine_cannot_do(spec: dict[str, Any], words: str) -> None:
    refusal = build_refusal(served_model(**spec).spec, serving_profile(), local=True)
    assert refusal is not None and refusal.reason is Reason.NOT_IMPLEMENTED
    assert words in refusal.message


@pytest.mark.parametrize("spec", [{}, {"replicas": 0}, {"suspend": True}])
def test_what_one_machine_does(spec: dict[str, Any]) -> None:
    assert build_refusal(served_model(**spec).spec, serving_profile(), local=True) is None


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("runtime", [runtime for runtime in Runtime if runtime != "external"])
def test_every_runtime_is_built(runtime: Runtime, local: bool) -> None:
    spec = served_model(runtime=runtime.value, source={"path": "/srv/m"}).spec
    profile = serving_profile(allowedHostPaths=["/srv"])
    assert build_refusal(spec, profile, local=local) is None


@pytest.mark.parametrize(
    ("path", "allowed", "accepted"),
    [
        ("/srv/models/m", ["/srv/models/m"], True),
        ("/srv/models/m", ["/srv/models"], True),
        ("/srv/models/m/model.onnx", ["/srv/models/m"], True),
        # What is mounted is the model's whole folder, and that has to be allowed.
        ("/srv/models/m/onnx/model.onnx", ["/srv/models/m"], True),
        ("/srv/models/m/onnx/model.onnx", ["/srv/models/m/onnx"], False),
        ("/srv/models/m", ["/srv/models/n"], False),
        # Of the root nothing but the named file is mounted.
        ("/model.onnx", ["/"], True),
        ("/model.onnx", ["/srv"], False),
        ("/onnx/model.onnx", ["/onnx"], True),
    ],
)
def test_a_folder_of_a_node_is_allowed_with_all_that_is_mounted(
    path: str, allowed: list[str], accepted: bool
) -> None:
    spec = served_model(runtime="onnxruntime", source={"path": path}).spec
    refusal = build_refusal(spec, serving_profile(allowedHostPaths=allowed), local=False)
    assert (refusal is None) is accepted


def test_a_file_directly_below_the_root_is_allowed_by_its_own_path() -> None:
    spec = served_model(source={"path": "/m.gguf"}).spec
    profile = serving_profile(allowedHostPaths=["/m.gguf"])
    assert build_refusal(spec, profile, local=False) is None


@pytest.mark.parametrize(
    ("projector", "words"),
    [
        (http("http://far.example/p.gguf"), "The host of projector.http.url is not one"),
        ({"path": "/etc/p.gguf"}, "projector.path lies below none of allowedHostPaths"),
        (HUB, "The hub's host is not one"),
    ],
)
def test_a_projector_is_fetched_from_nowhere_else_than_weights(
    projector: dict[str, Any], words: str
) -> None:
    model = served_model(source=CLAIM, projector=projector)
    profile = serving_profile("p-1", allowedSourceHosts=[])
    refusal = build_refusal(model.spec, profile, local=False)
    assert refusal is not None and refusal.reason is Reason.SOURCE_NOT_ALLOWED
    assert words in refusal.message
    assert "example" not in refusal.message and "/" not in refusal.message
    wide = serving_profile(allowedSourceHosts=["*"], allowedHostPaths=["/"])
    assert build_refusal(model.spec, wide, local=False) is None


def test_the_source_is_judged_before_its_projector() -> None:
    model = served_model(source={"path": "/etc/m"}, projector={"path": "/etc/p"})
    refusal = build_refusal(model.spec, serving_profile(), local=False)
    assert refusal is not None and refusal.message.startswith("source.path")


def test_one_machine_has_its_projector_as_a_file() -> None:
    model = served_model(projector=HUB)
    refusal = build_refusal(model.spec, serving_profile(), local=True)
    assert refusal is not None and refusal.reason is Reason.NOT_IMPLEMENTED
    assert refusal.message == (
        "projector.huggingFace is not implemented in local mode: name a file with projector.path."
    )
    model = served_model(projector={"path": "/srv/p.gguf"})
    assert build_refusal(model.spec, serving_profile(), local=True) is None
