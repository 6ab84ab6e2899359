"""What the HTTP of our engine processes has in common: who is let in, what is read, how it refuses.

The shapes are llama-server's, so that nobody who asks an engine has to know which one it is.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pumas_server.contract.bounds import MAX_REQUEST_BYTES

Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

HEALTH = ("/health", "/v1/health")
INVALID = "invalid_request_error"


class Refusal(Exception):
    """A call that is answered with an error."""

    def __init__(self, status: int, message: str, kind: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind

    def body(self) -> bytes:
        """The answer."""
        error = {"code": self.status, "message": self.message, "type": self.kind}
        return json.dumps({"error": error}).encode()


class CallerLeft(Exception):
    """Nobody waits for the answer any more."""


def loading() -> Refusal:
    """What a process answers that has no model yet."""
    return Refusal(503, "Loading model", "unavailable_error")


def check_method(method: str, *allowed: str) -> None:
    """Raise `Refusal` for another method."""
    if method not in allowed:
        raise Refusal(405, f"Only {' and '.join(allowed)} can be used here", INVALID)


def check_key(scope: Message, wanted: bytes) -> None:
    """Raise `Refusal` unless the caller has the key; an empty one lets everybody in."""
    if not wanted:
        return
    given = dict(scope["headers"]).get(b"authorization", b"")
    scheme, _, key = given.partition(b" ")
    if scheme.lower() != b"bearer" or not hmac.compare_digest(key.strip(), wanted):
        raise Refusal(401, "Invalid API Key", "authentication_error")


async def read_body(scope: Message, receive: Receive) -> bytes:
    """All of the body. Raises `Refusal` as soon as it is known to be too long, and `CallerLeft`."""
    told = dict(scope["headers"]).get(b"content-length", b"0")
    if int(told) > MAX_REQUEST_BYTES:
        raise _too_long()
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > MAX_REQUEST_BYTES:
            raise _too_long()
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def send_answer(send: Send, scope: Message, status: int, body: bytes, kind: bytes) -> None:
    """A whole answer; of a HEAD request its header."""
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    sent = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": sent})


def _too_long() -> Refusal:
    return Refusal(
        413, f"The body has more than {MAX_REQUEST_BYTES} bytes", "request_too_large_error"
    )
