"""Calls to engines: one connection, one request, one answer, never again.

A connection is taken from the pool or made; then, with no byte sent, the serving identity is looked
at once more and the session is marked admitted; then the request is written. Whatever raises before
the marker reached nobody. There are no redirects, cookies, proxies, decompression, or deadlines
after connecting (ADR 20).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping

from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.address import Body
from pumas_server.router.catalog_row import Target
from pumas_server.router.origin import Place, place_of
from pumas_server.router.sessions import Session
from pumas_server.router.upstream_answer import Broken, UpstreamAnswer
from pumas_server.router.upstream_connection import UpstreamConnection
from pumas_server.router.upstream_pool import ConnectFailed, UpstreamPool

#: How long the answer to a question without effect may take, and what is read of it.
ASK_SECONDS = 5.0
ASK_BYTES = 65_536

#: What ends a field, or is in none.
_NO_VALUE = re.compile(r"[\r\n\0]")

_JSON = "application/json"


class Call:
    """An admitted call whose answer's header has come; `close` gives its connection back."""

    __slots__ = ("_connection", "_pool", "answer")

    def __init__(
        self, answer: UpstreamAnswer, connection: UpstreamConnection, pool: UpstreamPool
    ) -> None:
        self.answer = answer
        self._connection = connection
        self._pool = pool

    def close(self) -> None:
        """End it. An answer that is not whole takes its connection with it, at once."""
        self._pool.give_back(self._connection)


class Upstream:
    """The process's client of engines."""

    def __init__(self, connect_seconds: float) -> None:
        self.pool = UpstreamPool(connect_seconds)

    def close(self) -> None:
        """Close every connection."""
        self.pool.close()

    async def post(
        self,
        session: Session,
        target: Target,
        path: str,
        body: Body,
        headers: Mapping[str, str],
        still_serves: Callable[[], bool],
    ) -> Call:
        """One POST; returns once the answer's header is complete. Whoever has it closes it.

        Raises `ConnectFailed` before the marker, `ContractError`: capability_unavailable before it,
        transport_lost after it; and `SessionEnded`.
        """
        place = _place(target)
        head = _head(place, target.endpoint.api_key, path, body, headers)
        with session.interruptible():
            connection = await self.pool.take(place.origin)
        call: Call | None = None
        try:
            if not still_serves():
                raise ContractError(
                    Code.CAPABILITY_UNAVAILABLE, "what serves the model changed while connecting"
                )
            session.admitted = True
            answer = connection.ask(head, body)
            with session.interruptible():
                await answer.headed()
            call = Call(answer, connection, self.pool)
        except Broken:
            raise lost("the connection to the provider broke before it answered") from None
        finally:
            if call is None:
                self.pool.give_back(connection)
        return call

    async def ask(
        self, session: Session, target: Target, path: str, body: bytes
    ) -> tuple[int, bytes] | None:
        """Status and body of a question that has no effect, so it admits nothing; None if lost.

        Raises `SessionEnded`.
        """
        connection: UpstreamConnection | None = None
        try:
            place = _place(target)
            head = _head(place, target.endpoint.api_key, path, body, {})
            with session.interruptible():
                async with asyncio.timeout(ASK_SECONDS):
                    connection = await self.pool.take(place.origin)
                    answer = connection.ask(head, body)
                    await answer.headed()
                    found = bytearray()
                    while len(found) < ASK_BYTES and (piece := await answer.read()):
                        found += piece
                    return answer.status, bytes(found)
        except (ConnectFailed, Broken, TimeoutError):
            return None
        finally:
            if connection is not None:
                self.pool.give_back(connection)


def lost(message: str) -> ContractError:
    """A transport that ended before the answer did."""
    return ContractError(Code.TRANSPORT_LOST, message)


def _place(target: Target) -> Place:
    """Raises `ConnectFailed` for an endpoint that is nowhere."""
    try:
        return place_of(target.endpoint.url)
    except ValueError:
        raise ConnectFailed from None


def _head(
    place: Place, api_key: str | None, path: str, body: Body, headers: Mapping[str, str]
) -> bytes:
    """The request's line and header. Raises `ContractError` where a value is none of a field."""
    fields = {"content-type": _JSON, **headers, "accept-encoding": "identity"}
    if api_key is not None:
        fields["authorization"] = f"Bearer {api_key}"
    lines = []
    for name, value in fields.items():
        if _NO_VALUE.search(value):
            raise ContractError(
                Code.CAPABILITY_UNAVAILABLE, f"the {name} for the provider is no header's value"
            )
        lines.append(f"{name}: {value}\r\n")
    return b"POST %b%b HTTP/1.1\r\nhost: %b\r\ncontent-length: %d\r\n%b\r\n" % (
        place.prefix,
        path.encode(),
        place.authority,
        len(body),
        "".join(lines).encode(),
    )


async def read_chunk(session: Session, answer: UpstreamAnswer) -> bytes:
    """Some of what has come of the body, at least one byte; empty at its clean end."""
    try:
        with session.interruptible():
            return await answer.read()
    except Broken:
        raise lost("the connection to the provider broke before its answer ended") from None
