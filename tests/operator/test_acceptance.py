"""Which models are refused before their file is looked at."""

from __future__ import annotations

import pytest

from pumas_crds.vocabulary import Reason
from pumas_operator.acceptance import build_refusal
from support.models import external_model, served_model, serving_profile


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


def test_a_runtime_that_is_not_built_is_refused_by_name() -> None:
    spec = served_model(runtime="onnxruntime").spec
    refusal = build_refusal(spec, serving_profile(), local=True)
    assert refusal is not None and refusal.reason is Reason.NOT_IMPLEMENTED
    assert "onnxruntime" in refusal.message


def test_a_file_for_llama_cpp_is_not_refused_unseen() -> None:
    assert build_refusal(served_model().spec, serving_profile(), local=True) is None
