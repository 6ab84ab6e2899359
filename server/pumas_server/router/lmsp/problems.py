"""Problems: the one shape of every error under `/lmsp/`, and of a model's `error` (RFC 9457). Pure.

Clients branch on `code`; `type` is a reference to a page that says the same in a sentence. The
status in the body is the answer's own; embedded in a model it is the one that a request naming the
model would get.
"""

from __future__ import annotations

import json
from enum import StrEnum

from pumas_server.contract.errors import Outcome

MEDIA_TYPE = "application/problem+json"

#: Where the pages are, unless a setting says another place.
PAGES = "/lmsp/v1/problems/"

#: Seconds that a caller is asked to wait where waiting helps.
RETRY_SECONDS = 1


class ProblemCode(StrEnum):
    """Stable values that clients branch on."""

    MODEL_NOT_FOUND = "model_not_found"
    MODEL_NOT_READY = "model_not_ready"
    MODEL_LOAD_FAILED = "model_load_failed"
    INVALID_REQUEST = "invalid_request"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    IDEMPOTENCY_IN_PROGRESS = "idempotency_in_progress"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    UNAVAILABLE = "unavailable"
    INTERNAL_ERROR = "internal_error"

    @property
    def status(self) -> int:
        """The HTTP status; of a failed load the one for causes that may pass."""
        return _MEANING[self][0]

    @property
    def heading(self) -> str:
        """The same for every problem of this code."""
        return _MEANING[self][1]

    @property
    def page(self) -> str:
        """What the page of its type says."""
        return f"{self.heading} ({self}): {_MEANING[self][2]}\n"


#: Status, title, page.
_MEANING: dict[ProblemCode, tuple[int, str, str]] = {
    ProblemCode.MODEL_NOT_FOUND: (
        404,
        "Model not found",
        "no model has this id; aliases and display names are no ids.",
    ),
    ProblemCode.MODEL_NOT_READY: (
        409,
        "Model not ready",
        "the model as it is set up cannot be loaded or unloaded by request.",
    ),
    ProblemCode.MODEL_LOAD_FAILED: (
        503,
        "Model failed to load",
        "its status is error until it is loaded anew; 500 says that its file or its configuration"
        " is at fault, 503 that the cause may pass.",
    ),
    ProblemCode.INVALID_REQUEST: (
        400,
        "Invalid request",
        "the query, a header or the body is not what this route takes.",
    ),
    ProblemCode.NOT_FOUND: (404, "Not found", "there is no such route, or not in this service."),
    ProblemCode.METHOD_NOT_ALLOWED: (
        405,
        "Method not allowed",
        "the route takes the methods that Allow names.",
    ),
    ProblemCode.IDEMPOTENCY_IN_PROGRESS: (
        409,
        "Request in progress",
        "a request with this Idempotency-Key is being answered; ask again.",
    ),
    ProblemCode.IDEMPOTENCY_KEY_REUSED: (
        422,
        "Idempotency key reused",
        "this Idempotency-Key stands for another request; take a new one.",
    ),
    ProblemCode.UNAVAILABLE: (503, "Not available now", "it cannot be done now; ask again."),
    ProblemCode.INTERNAL_ERROR: (
        500,
        "Internal error",
        "a fault of the service; its log says more.",
    ),
}


class ProblemError(Exception):
    """A request is answered with a problem."""

    def __init__(
        self,
        code: ProblemCode,
        detail: str,
        *,
        param: str | None = None,
        outcome: Outcome = Outcome.NOT_ADMITTED,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.param = param
        """The parameter or header field that is at fault."""
        self.outcome = outcome
        """Unknown once a load or unload has begun to be written."""


def problem_object(
    pages: str, code: ProblemCode, detail: str, *, status: int | None = None
) -> dict[str, object]:
    """The members that every problem has; `pages` is what the type is relative to."""
    return {
        "type": pages + code,
        "title": code.heading,
        "status": code.status if status is None else status,
        "detail": detail,
        "code": code.value,
    }


def answer_object(pages: str, error: ProblemError, request_id: str) -> dict[str, object]:
    """The body of an answer."""
    made = problem_object(pages, error.code, error.detail)
    made["instance"] = f"urn:uuid:{request_id}"
    if error.param is not None:
        made["param"] = error.param
    return made


def canonical(value: object) -> str:
    """JSON that is the same for equal values: members sorted, nothing between them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
