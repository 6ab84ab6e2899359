"""What a connection is refused with, to the byte."""

from __future__ import annotations

import json

import pytest

from pumas_server.router.connection_refusal import (
    ConnectionRefusal,
    refuse_bad_http,
    refuse_connection,
    refuse_long_header,
    refuse_long_target,
    refuse_slow_header,
    render_refusal,
)
from pumas_server.router.refusals import Reason

#: Each with its status and code.
REFUSALS: dict[Reason, tuple[ConnectionRefusal, int, str]] = {
    Reason.BAD_HTTP: (refuse_bad_http(), 400, "invalid_request"),
    Reason.HEADER_TIMEOUT: (refuse_slow_header(10), 408, "invalid_request"),
    Reason.HEADER_SIZE: (refuse_long_header(65_536), 431, "request_limit"),
    Reason.TARGET_SIZE: (refuse_long_target(8_192), 414, "request_limit"),
    Reason.CONNECTIONS: (refuse_connection(16_384), 503, "capability_unavailable"),
}


def read(raw: bytes) -> tuple[str, dict[str, str], bytes]:
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    return line, dict(field.split(": ", 1) for field in fields), body


@pytest.mark.parametrize("reason", REFUSALS)
@pytest.mark.parametrize("target", [b"", b"/v1/model-operations", b"/v1/chat/comp", b"/lmsp", b"*"])
def test_in_the_openai_shape(reason: Reason, target: bytes) -> None:
    refusal, status, code = REFUSALS[reason]
    assert refusal.reason is reason
    line, headers, body = read(render_refusal(refusal, target, "/pages/"))
    assert line.startswith(f"HTTP/1.1 {status} ")
    assert headers.pop("retry-after", None) == ("1" if status == 503 else None)
    assert headers == {
        "x-pumas-outcome": "not_admitted",
        "x-should-retry": "false",
        "content-type": "application/json",
        "connection": "close",
        "content-length": str(len(body)),
    }
    error = json.loads(body)["error"]
    assert error["code"] == code
    assert error["type"] == ("server_error" if status == 503 else "invalid_request_error")
    assert error["message"] == refusal.sentence


@pytest.mark.parametrize("reason", REFUSALS)
def test_as_a_problem(reason: Reason) -> None:
    refusal, status, _ = REFUSALS[reason]
    line, headers, body = read(render_refusal(refusal, b"/lmsp/v1/models", "https://p/"))
    problem = json.loads(body)
    assert line.startswith(f"HTTP/1.1 {status} ")
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert headers["x-pumas-outcome"] == "not_admitted"
    assert headers["content-length"] == str(len(body))
    assert (problem["status"], problem["detail"]) == (status, refusal.sentence)
    assert problem["type"] == "https://p/invalid_request"
    assert problem["instance"] == "urn:uuid:" + headers["x-request-id"]
