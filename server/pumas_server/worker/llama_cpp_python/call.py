"""One call of work, between its caller and the library's application.

A stream is begun with its first event, and not before: until then a fault is an answer with a
status, and afterwards an event that says so, where the library would cut the answer off. A finite
answer is held. A call whose caller leaves ends where it can: in the queue, and between two tokens
of a stream; a finite answer that is being computed is computed to its end.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from pumas_server.worker.own_surface import (
    INVALID,
    CallerLeft,
    Message,
    Receive,
    Refusal,
    Send,
)

Application = Callable[[Any, Any, Any], Awaitable[None]]

#: What the library says of an input that does not fit, at whatever place it notices.
_TOO_LONG = re.compile(r"Requested tokens \(\d+\) exceed (?:context window|batch size) of \d+")


class Call:
    """A request that was checked, and what becomes of it."""

    def __init__(self, body: bytes, receive: Receive, send: Send, *, streams: bool) -> None:
        self._body = body
        self._receive = receive
        self._send = send
        self._streams = streams
        self._asked = False
        self._left = False
        self._start: dict[str, Any] | None = None
        self._begun = False
        self._parts: list[bytes] = []

    async def run(self, app: Application, scope: Message) -> bytes | None:
        """The body of a finite answer; None when a stream was sent. Raises `Refusal`."""
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self._body)).encode()),
        ]
        inner = {**scope, "headers": headers}
        try:
            if self._streams:
                await app(inner, self._ask, self._tell)
            else:
                await self._run_finite(app, inner)
        except Exception as error:
            await self._fail(refusal_of(error))
            return None
        if self._begun:
            return None
        if self._left or self._start is None or (self._streams and not self._parts):
            raise CallerLeft
        return finite_answer(self._start["status"], b"".join(self._parts))

    async def _run_finite(self, app: Application, scope: Message) -> None:
        """The library itself looks for a caller who left but once."""
        import anyio

        # Its cancellation, unlike asyncio's, waits for the thread that computes: the library's
        # lock is not given to the next call before.
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                while (await self._receive())["type"] != "http.disconnect":
                    pass  # uvicorn waits within `receive` when there is no more of a body
                self._left = True
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            await app(scope, self._ask, self._tell)
            tasks.cancel_scope.cancel()

    async def _ask(self) -> Message:
        """The application's `receive`."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        return await self._receive()

    async def _tell(self, message: dict[str, Any]) -> None:
        """The application's `send`."""
        if message["type"] == "http.response.start":
            kind = dict(message["headers"]).get(b"content-type", b"")
            self._streams = kind.startswith(b"text/event-stream")
            self._start = message
            return
        if not self._streams:
            self._parts.append(message.get("body", b""))
            return
        if not self._begun:
            if not message.get("body"):
                return
            self._begun = True
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(message)

    async def _fail(self, refusal: Refusal) -> None:
        """Tell of a fault in the form that is still possible."""
        if not self._begun:
            raise refusal
        event = b"data: " + refusal.body() + b"\n\n"
        await self._send({"type": "http.response.body", "body": event, "more_body": False})


def finite_answer(status: int, body: bytes) -> bytes:
    """The library's answer. Raises `Refusal` for an error, in this engine's form."""
    if status == 200:
        return body
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = "the engine gave no reason"
    raise _refusal(status, str(message))


def refusal_of(error: BaseException) -> Refusal:
    """What to answer to a fault of the library."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    told = _TOO_LONG.search(str(error))
    if told is None:
        traceback.print_exception(error, file=sys.stderr)
        return _refusal(500, f"the engine failed: {type(error).__name__}")
    return _refusal(500, told[0])


def _refusal(status: int, message: str) -> Refusal:
    if _TOO_LONG.search(message) or status == 400:
        return Refusal(400, message, INVALID)
    return Refusal(status, message, "server_error")
