"""Problems as HTTP answers, also those of the framework: nothing under `/lmsp/` is answered
otherwise."""

from __future__ import annotations

import json
from uuid import uuid4

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from pumas_server.contract.errors import Outcome
from pumas_server.router.lmsp.paths import READ_METHODS, allowed_methods
from pumas_server.router.lmsp.problems import (
    MEDIA_TYPE,
    RETRY_SECONDS,
    ProblemCode,
    ProblemError,
    answer_object,
    canonical,
)

REQUEST_ID_HEADER = "X-Request-Id"
OUTCOME_HEADER = "X-Pumas-Outcome"

_PASSING = frozenset({ProblemCode.UNAVAILABLE, ProblemCode.IDEMPOTENCY_IN_PROGRESS})


class ProblemResponses:
    """Makes answers of problems; `pages` is what their types are relative to."""

    def __init__(self, pages: str, *, managed: bool) -> None:
        self._pages = pages
        self._managed = managed

    def of(self, error: ProblemError, **headers: str) -> Response:
        """The answer to a request of ours that failed."""
        if error.code in _PASSING:
            headers["Retry-After"] = str(RETRY_SECONDS)
        body = canonical(answer_object(self._pages, error, str(uuid4())))
        return problem_response(error.code.status, body, headers, error.outcome)

    def of_framework(self, request: Request, error: HTTPException) -> Response:
        """The answer where no route of ours was reached."""
        match error.status_code:
            case 404:
                return self.of(ProblemError(ProblemCode.NOT_FOUND, "there is no such route"))
            case 405:
                found = (error.headers or {}).get("Allow", "")
                allowed = allowed_methods(request.scope["path"], found, managed=self._managed)
                detail = f"this route takes {allowed}"
                problem = ProblemError(ProblemCode.METHOD_NOT_ALLOWED, detail)
                return self.of(problem, Allow=allowed)
            case _:
                return self.of(ProblemError(ProblemCode.INVALID_REQUEST, str(error.detail)))

    def of_fault(self, request: Request) -> Response:
        """The answer when the router itself failed. How far an action had come is not known."""
        read = request.method in READ_METHODS
        outcome = Outcome.NOT_ADMITTED if read else Outcome.UNKNOWN
        detail = "the service failed; its log says how"
        return self.of(ProblemError(ProblemCode.INTERNAL_ERROR, detail, outcome=outcome))


def problem_response(
    status: int, body: str, headers: dict[str, str], outcome: Outcome = Outcome.NOT_ADMITTED
) -> Response:
    """The answer of a body, whose request id is also a header, as is whether it had an effect."""
    instance: str = json.loads(body)["instance"]
    headers = headers | {
        REQUEST_ID_HEADER: instance.removeprefix("urn:uuid:"),
        OUTCOME_HEADER: outcome.value,
        "Cache-Control": "no-store",
    }
    return Response(body, status, headers, media_type=MEDIA_TYPE)
