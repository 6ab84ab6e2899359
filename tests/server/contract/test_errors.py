"""The error family: status of each code, the body, and that any message can be sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError, Outcome, error_body, invalid

STATUSES = {
    "invalid_request": 400,
    "unsupported_contract": 400,
    "model_not_found": 404,
    "ambiguous_model": 409,
    "ambiguous_operation": 409,
    "request_limit": 413,
    "unsupported_modality": 422,
    "capability_unavailable": 503,
    "provider_failure": 502,
    "invalid_provider_result": 502,
    "response_limit": 502,
    "transport_lost": 502,
}


def test_every_code_has_its_status() -> None:
    assert {code.value: code.status for code in Code} == STATUSES


def test_the_body_is_the_documents() -> None:
    error = invalid("unknown field `optoins`")
    body = error_body(error, Outcome.NOT_ADMITTED, "example:1")
    assert body == (
        b'{"contract_version": 1, "request_id": "example:1", "error": {"code": "invalid_request",'
        b' "outcome": "not_admitted", "message": "request does not match the contract: unknown'
        b' field `optoins`"}}'
    )


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("code", list(Code))
def test_code_and_outcome_are_independent(code: Code, outcome: Outcome) -> None:
    assert json.loads(error_body(ContractError(code, "why"), outcome, None)) == {
        "contract_version": 1,
        "request_id": None,
        "error": {"code": code.value, "outcome": outcome.value, "message": "why"},
    }


def test_credentials_are_redacted_once_where_the_error_is_made() -> None:
    error = ContractError(Code.PROVIDER_FAILURE, "refused: Authorization: Bearer abc123def456")
    assert error.message == "refused: [redacted]"
    assert str(error) == "provider_failure: refused: [redacted]"
    assert error.request_id is None


@settings(deadline=None, max_examples=40)
@given(message=st.text())
def test_any_message_makes_a_body(message: str) -> None:
    body = error_body(ContractError(Code.PROVIDER_FAILURE, message), Outcome.UNKNOWN, "r1")
    assert json.loads(body)["error"]["code"] == "provider_failure"


def test_half_of_a_surrogate_pair_can_be_sent() -> None:
    body = error_body(ContractError(Code.PROVIDER_FAILURE, "a\ud800b"), Outcome.UNKNOWN, None)
    assert json.loads(body)["error"]["message"] == "a?b"
