"""What is refused before a route sees it, as the bytes that a connection ends with. Pure.

Under `/lmsp/` it is a problem, everywhere else it has the OpenAI error shape, as 404 and 405 have.
The statuses are those of HTTP. Nothing was admitted, and the connection closes.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from uuid import uuid4

from pumas_server.router.lmsp.paths import ROOT as LMSP_ROOT
from pumas_server.router.lmsp.problems import MEDIA_TYPE, ProblemCode, canonical, problem_object
from pumas_server.router.openai_refusals import REFUSED_HEADERS, openai_error
from pumas_server.router.refusals import Reason


@dataclass(frozen=True, slots=True)
class ConnectionRefusal:
    """Why a connection is not served on."""

    reason: Reason
    status: HTTPStatus
    code: str
    sentence: str


def refuse_bad_http() -> ConnectionRefusal:
    """What came cannot be read."""
    return ConnectionRefusal(
        Reason.BAD_HTTP, HTTPStatus.BAD_REQUEST, "invalid_request", "the request is not HTTP/1.1"
    )


def refuse_slow_header(seconds: float) -> ConnectionRefusal:
    """Its end did not come."""
    return ConnectionRefusal(
        Reason.HEADER_TIMEOUT,
        HTTPStatus.REQUEST_TIMEOUT,
        "invalid_request",
        f"the request's header did not end within {seconds:g} s",
    )


def refuse_long_header(most: int) -> ConnectionRefusal:
    """It has too many bytes."""
    return ConnectionRefusal(
        Reason.HEADER_SIZE,
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "request_limit",
        f"the request's header has more than {most} bytes",
    )


def refuse_long_target(most: int) -> ConnectionRefusal:
    """Path and query have too many bytes."""
    return ConnectionRefusal(
        Reason.TARGET_SIZE,
        HTTPStatus.REQUEST_URI_TOO_LONG,
        "request_limit",
        f"the request's target has more than {most} bytes",
    )


def refuse_connection(most: int) -> ConnectionRefusal:
    """As many are open as may be."""
    return ConnectionRefusal(
        Reason.CONNECTIONS,
        HTTPStatus.SERVICE_UNAVAILABLE,
        "capability_unavailable",
        f"all {most} connections that this router accepts are open",
    )


def render_refusal(refusal: ConnectionRefusal, target: bytes, pages: str) -> bytes:
    """The whole answer to a request for `target`, as far as it is known."""
    headers = REFUSED_HEADERS | {"content-type": "application/json", "connection": "close"}
    if target.startswith(LMSP_ROOT.encode()):
        request_id = str(uuid4())
        problem = problem_object(
            pages, ProblemCode.INVALID_REQUEST, refusal.sentence, status=refusal.status
        )
        body = canonical(problem | {"instance": f"urn:uuid:{request_id}"}).encode()
        headers |= {
            "content-type": MEDIA_TYPE,
            "x-request-id": request_id,
            "cache-control": "no-store",
        }
    else:
        body = openai_error(refusal.status, refusal.code, refusal.sentence)
    if refusal.status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = "1"
    headers["content-length"] = str(len(body))
    lines = [f"HTTP/1.1 {refusal.status.value} {refusal.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
