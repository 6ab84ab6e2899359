"""Which models are refused before their file is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.vocabulary import Reason
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
def test_a_runtime_that_is_not_built_is_refused_by_name(local: bool) -> None:
    spec = served_model(runtime="onnxruntime").spec
    refusal = build_refusal(spec, serving_profile(), local=local)
    assert refusal is not None and refusal.reason is Reason.NOT_IMPLEMENTED
    assert "onnxruntime" in refusal.message
