"""The few lines of ASGI that the hot paths need: read a body, send an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from pumas_server.contract.bounds import MAX_REQUEST_BYTES
from pumas_server.contract.errors import Code, ContractError, invalid
from pumas_server.provider.address import Body
from pumas_server.router.admission import BufferLease
from pumas_server.router.growing_body import GrowingBody
from pumas_server.router.sessions import EndReason, Session, SessionEnded
from pumas_server.router.turns import Turns

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

JSON_HEADER = (b"content-type", b"application/json")

#: Where a connection writes into a request's scope why there will be no more of its body.
BODY_FAULT = "pumas.body_fault"

#: Where it says how to learn that the caller has left. ASGI's own way is to wait for a message,
#: which takes a task for each call.
CALLER = "pumas.caller"

#: A longer answer is handed over in pieces: its session stays, with what it holds, until the caller
#: has read nearly all of it, and the connection buffers little of it for a caller that does not.
PIECE_BYTES = 65_536

#: The readers of bodies that are longer than that.
_LONG_BODIES = Turns()


class Caller(Protocol):
    """Whoever sent the request, as long as it is connected."""

    def when_gone(self, told: Callable[[], None] | None) -> None:
        """Call `told` when it leaves, now if it has left; None: nobody is to be told any more."""

    def rest(self) -> None:
        """Read nothing more from it for a moment, once it has its answer."""

    def break_off(self) -> None:
        """Close the connection behind what was sent; nothing more of the answer follows."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first value of a request header; `name` in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return None


def fields(scope: Scope) -> dict[bytes, bytes]:
    """The first value of every request header, by its name in lower case."""
    return dict(reversed(scope["headers"]))


async def read_body(scope: Scope, receive: Receive, session: Session, lease: BufferLease) -> Body:
    """The request body, counted while it is read.

    Raises `ContractError`: request_limit over 32 MiB (at once when the length is announced),
    capability_unavailable when the process's buffer budget is spent, invalid_request when it comes
    too slowly or its framing breaks; `SessionEnded` when the caller leaves before the end, or the
    router stops.
    """
    announced = header(scope, b"content-length")
    most = MAX_REQUEST_BYTES
    if announced is not None and announced.isdigit():
        most = int(announced)
        if most > MAX_REQUEST_BYTES:
            raise _too_long(most)
    body = GrowingBody(most)
    long = False
    try:
        while True:
            with session.interruptible():
                message = await receive()
            if message["type"] == "http.disconnect":
                raise SessionEnded(EndReason.CALLER_GONE)
            piece: bytes = message.get("body", b"")
            if body.size + len(piece) > MAX_REQUEST_BYTES:
                raise _too_long(body.size + len(piece))
            if not lease.grow(len(piece)):
                raise lease.refusal(Code.CAPABILITY_UNAVAILABLE)
            body.append(piece)
            if not message.get("more_body", False):
                break
            if (fault := scope.get(BODY_FAULT)) is not None:
                raise invalid(fault)
            if body.size > PIECE_BYTES:
                if not long:
                    long = True
                    _LONG_BODIES.enter()
                # The connection reads nothing more of it until it is asked for.
                await _LONG_BODIES.turn()
    finally:
        if long:
            _LONG_BODIES.leave()
    return body.whole()


def _too_long(size: int) -> ContractError:
    return ContractError(
        Code.REQUEST_LIMIT,
        f"the body has at least {size} bytes; at most {MAX_REQUEST_BYTES} are allowed",
    )


class CallerWatch:
    """A block in which a session ends when its caller leaves. For after its body was read."""

    __slots__ = ("_caller", "_session")

    def __init__(self, scope: Scope, session: Session) -> None:
        self._caller: Caller = scope[CALLER]
        self._session = session

    def __enter__(self) -> None:
        self._caller.when_gone(self._gone)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._caller.when_gone(None)

    def _gone(self) -> None:
        self._session.end(EndReason.CALLER_GONE)


async def send_whole(send: Send, status: int, body: bytes, headers: Headers = ()) -> None:
    """A finite answer, with its length. Returns when the caller has read nearly all of it."""
    length = (b"content-length", str(len(body)).encode())
    await send_start(send, status, [length, *headers])
    last = 0
    if len(body) > PIECE_BYTES:
        last = (len(body) - 1) // PIECE_BYTES * PIECE_BYTES
        for start in range(0, last, PIECE_BYTES):
            await send_piece(send, body[start : start + PIECE_BYTES])
    await send_end(send, body[last:] if last else body)


async def send_start(send: Send, status: int, headers: Headers) -> None:
    """Status and header."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def send_piece(send: Send, piece: bytes) -> None:
    """Some of the body; more follows."""
    await send({"type": "http.response.body", "body": piece, "more_body": True})


async def send_end(send: Send, piece: bytes = b"") -> None:
    """The clean end of a body. A body that lacks it ends broken, which is how failure is told."""
    await send({"type": "http.response.body", "body": piece, "more_body": False})


def end_broken(scope: Scope) -> None:
    """The other end of a body, on purpose. One without either is an error in the server's log."""
    caller: Caller = scope[CALLER]
    caller.break_off()
