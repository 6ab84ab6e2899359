"""The one family of errors that crosses the contract's border (*Errors*).

A `ContractError` says what is wrong; it never says whether there was an effect. That is decided
once, by the admission marker, where the error is rendered: the outcome is an argument there and
is never derived from the code.
"""

from __future__ import annotations

import json
from enum import StrEnum

from pumas_server.contract.bounds import CONTRACT_VERSION
from pumas_server.contract.redaction import redact


class Code(StrEnum):
    """Stable values that consumers branch on."""

    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED_CONTRACT = "unsupported_contract"
    MODEL_NOT_FOUND = "model_not_found"
    AMBIGUOUS_MODEL = "ambiguous_model"
    AMBIGUOUS_OPERATION = "ambiguous_operation"
    REQUEST_LIMIT = "request_limit"
    UNSUPPORTED_MODALITY = "unsupported_modality"
    CAPABILITY_UNAVAILABLE = "capability_unavailable"
    PROVIDER_FAILURE = "provider_failure"
    INVALID_PROVIDER_RESULT = "invalid_provider_result"
    RESPONSE_LIMIT = "response_limit"
    TRANSPORT_LOST = "transport_lost"

    @property
    def status(self) -> int:
        """The HTTP status that belongs to the code."""
        return _STATUS[self]


_STATUS: dict[Code, int] = {
    Code.INVALID_REQUEST: 400,
    Code.UNSUPPORTED_CONTRACT: 400,
    Code.MODEL_NOT_FOUND: 404,
    Code.AMBIGUOUS_MODEL: 409,
    Code.AMBIGUOUS_OPERATION: 409,
    Code.REQUEST_LIMIT: 413,
    Code.UNSUPPORTED_MODALITY: 422,
    Code.CAPABILITY_UNAVAILABLE: 503,
    Code.PROVIDER_FAILURE: 502,
    Code.INVALID_PROVIDER_RESULT: 502,
    Code.RESPONSE_LIMIT: 502,
    Code.TRANSPORT_LOST: 502,
}


class Outcome(StrEnum):
    """Whether a failed operation had an effect."""

    NOT_ADMITTED = "not_admitted"
    """No provider saw a byte of it."""
    UNKNOWN = "unknown"
    """A provider received it, and its result cannot be established."""


class ContractError(Exception):
    """A call that fails, made where the fact is known.

    `message` is for people: credential-shaped text is redacted here, once. `request_id` is set by
    the parser, when it rescued one from a body that does not match. `lasting` is True for an
    unavailability that waiting does not end: then nobody is told to come back.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        request_id: str | None = None,
        lasting: bool = False,
    ) -> None:
        self.code = code
        self.lasting = lasting
        self.message = redact(message)
        self.request_id = request_id
        super().__init__(f"{code}: {self.message}")


def invalid(message: str) -> ContractError:
    """A request that does not match the contract."""
    return ContractError(Code.INVALID_REQUEST, f"request does not match the contract: {message}")


def error_member(code: Code, outcome: Outcome, message: str) -> dict[str, str]:
    """The fixed error record, as it stands in error bodies and in `failed` stream records."""
    return {"code": code, "outcome": outcome, "message": message}


def error_body(error: ContractError, outcome: Outcome, request_id: str | None) -> bytes:
    """The JSON body of an error response."""
    return json.dumps(
        {
            "contract_version": CONTRACT_VERSION,
            "request_id": request_id,
            "error": error_member(error.code, outcome, error.message),
        },
        ensure_ascii=False,
    ).encode()
