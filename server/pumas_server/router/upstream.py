"""Calls to engines: one connection, one request, one answer, never again.

aiohttp does the HTTP; two things about its connections are ours (ADR on upstream connections):

- The marker. `connect` is where a connection is in hand and no byte is out: there the serving
  identity is looked at once more and the session is marked admitted. Whatever raises before that
  reached nobody.
- No self-made `unknown`. The engine closes idle connections after 5 s and any after 100 requests;
  a pooled one is used only while idle for less than 2 s and for less than 90 requests.
"""

from __future__ import annotations

import asyncio
import functools
import io
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.catalog_row import Target
from pumas_server.router.sessions import Session

IDLE_SECONDS = 2.0
MAX_USES = 90
_READ_AHEAD_BYTES = 65_536
#: What is taken at once of what came: an event loop reads up to 256 KiB from a socket in one go.
_CHUNK_BYTES = 65_536

#: Longer bodies are written in pieces, so that one caller's megabytes do not hold up the loop.
_WRITE_WHOLE_BYTES = 65_536


#: How long the answer to a question without effect may take, and what is read of it.
ASK_SECONDS = 5.0
ASK_BYTES = 65_536


class ConnectFailed(Exception):
    """No connection to an endpoint could be made; nothing was sent."""


class _Admit:
    """What happens between having a connection and sending on it."""

    def __init__(self, session: Session, still_serves: Callable[[], bool]) -> None:
        self._session = session
        self._still_serves = still_serves
        self._connection: Connection | None = None
        self._transport: asyncio.Transport | None = None

    def __call__(self, connection: Connection) -> None:
        if not self._still_serves():
            raise ContractError(
                Code.CAPABILITY_UNAVAILABLE, "what serves the model changed while connecting"
            )
        self._connection, self._transport = connection, connection.transport
        self._session.admitted = True

    def abort(self) -> None:
        """Let the provider know now: closing would first wait for what is still to be written.

        A connection that went back to the pool, whole and open, is somebody else's: it is left.
        """
        if self._connection is None or self._transport is None:
            return
        if self._connection.protocol is not None or self._transport.is_closing():
            self._transport.abort()


_admit: ContextVar[_Admit | None] = ContextVar("admit", default=None)


class _Wire(ResponseHandler):
    """One connection, with the number of requests it has carried.

    Three things that aiohttp leaves open are closed here. Whoever reads a body whose next chunk is
    malformed would wait for ever: aiohttp tells only those who wait for a header. A reset would be
    the clean end of a body that ends with its connection: nobody knows that it was whole. And what
    comes on a connection in the pool, asked for by nobody, would be the next call's answer.
    """

    uses = 0
    lent: Connection | None = None
    """What the connection was handed out as last; without a protocol once it is in the pool."""

    def data_received(self, data: bytes) -> None:
        # Without data it is aiohttp that goes on with what it holds.
        unasked = bool(data) and self._in_pool()
        if not unasked:
            # The end of an answer puts the connection into the pool in here, whatever came with it.
            super().data_received(data)
        if unasked or (self._in_pool() and self.should_close):
            self.close()

    def _in_pool(self) -> bool:
        return self.lent is not None and self.lent.protocol is None

    def connection_lost(self, exc: BaseException | None) -> None:
        body = self._payload
        if exc is not None and body is not None and not body.is_eof():
            body.set_exception(aiohttp.ClientPayloadError("the connection broke"))
        super().connection_lost(exc)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof():
            body.set_exception(aiohttp.ClientPayloadError("the body's framing is broken"))
        super().set_exception(exc, *cause)


class _Connector(aiohttp.TCPConnector):
    """A pool whose connections are retired early and handed out through the marker."""

    def __init__(self) -> None:
        super().__init__(limit=0, keepalive_timeout=IDLE_SECONDS)
        self._factory = cast(
            "functools.partial[ResponseHandler]", functools.partial(_Wire, loop=self._loop)
        )

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            wire = connection.protocol
            if not isinstance(wire, _Wire):
                raise ConnectFailed
            wire.uses += 1
            wire.lent = connection
            if wire.uses <= MAX_USES:
                break
            connection.close()
        admit = _admit.get()
        if admit is not None:
            try:
                admit(connection)
            except BaseException:
                connection.release()
                raise
        return connection


class Upstream:
    """The process's client of engines."""

    def __init__(self, connect_seconds: float) -> None:
        self._connect_seconds = connect_seconds
        self._client: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Make the client; needs a running loop."""
        self._client = aiohttp.ClientSession(
            connector=_Connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_read=None, connect=self._connect_seconds
            ),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept"),
            read_bufsize=_READ_AHEAD_BYTES,
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.close()

    @asynccontextmanager
    async def post(
        self,
        session: Session,
        target: Target,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        still_serves: Callable[[], bool],
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One POST; yields the answer once its header is complete.

        Raises `ConnectFailed` before the marker, `ContractError` (transport_lost) after it, and
        `SessionEnded`. On leaving, an answer that was not read to its end takes its connection
        with it, at once.
        """
        if self._client is None:
            raise RuntimeError("the upstream client is not open")
        admit = _Admit(session, still_serves)
        token = _admit.set(admit)
        response: aiohttp.ClientResponse | None = None
        try:
            try:
                with session.interruptible():
                    response = await self._client.request(
                        "POST",
                        URL(target.endpoint.url + path, encoded=True),
                        data=_in_pieces(body),
                        headers=_headers(target, headers),
                        allow_redirects=False,
                    )
            except (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError):
                if session.admitted:
                    raise lost("the connection to the provider broke before it answered") from None
                raise ConnectFailed from None
            finally:
                _admit.reset(token)
            yield response
        finally:
            if response is None or not response.content.at_eof() or response.content.exception():
                admit.abort()
            if response is not None:
                response.close()

    async def ask(
        self, session: Session, target: Target, path: str, body: bytes
    ) -> tuple[int, bytes] | None:
        """Status and body of a question that has no effect, so it admits nothing; None if lost.

        Raises `SessionEnded`.
        """
        if self._client is None:
            raise RuntimeError("the upstream client is not open")
        try:
            with session.interruptible():
                async with self._client.request(
                    "POST",
                    URL(target.endpoint.url + path, encoded=True),
                    data=_in_pieces(body),
                    headers=_headers(target, {}),
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(total=ASK_SECONDS),
                ) as response:
                    found = bytearray()
                    while len(found) < ASK_BYTES and (chunk := await response.content.readany()):
                        found += chunk
                    return response.status, bytes(found)
        except (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError):
            return None


def _in_pieces(body: bytes) -> bytes | io.BytesIO:
    return body if len(body) <= _WRITE_WHOLE_BYTES else io.BytesIO(body)


def lost(message: str) -> ContractError:
    """A transport that ended before the answer did."""
    return ContractError(Code.TRANSPORT_LOST, message)


def _headers(target: Target, headers: Mapping[str, str]) -> dict[str, str]:
    # In lower case, as the caller's own are: two spellings would be two headers.
    sent = {"content-type": "application/json", **headers, "accept-encoding": "identity"}
    if target.endpoint.api_key is not None:
        sent["authorization"] = f"Bearer {target.endpoint.api_key}"
    return sent


async def read_chunk(session: Session, response: aiohttp.ClientResponse) -> bytes:
    """Some of what has come of the body, at least one byte; empty at its clean end."""
    try:
        with session.interruptible():
            return await response.content.read(_CHUNK_BYTES)
    except (aiohttp.ClientError, OSError, TimeoutError):
        raise lost("the connection to the provider broke before its answer ended") from None
