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
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.catalog import Target
from pumas_server.router.sessions import Session

IDLE_SECONDS = 2.0
MAX_USES = 90
_READ_AHEAD_BYTES = 65_536


class ConnectFailed(Exception):
    """No connection to an endpoint could be made; nothing was sent."""


class _Admit:
    """What happens between having a connection and sending on it."""

    def __init__(self, session: Session, still_serves: Callable[[], bool]) -> None:
        self._session = session
        self._still_serves = still_serves
        self.connection: Connection | None = None

    def __call__(self, connection: Connection) -> None:
        if not self._still_serves():
            raise ContractError(
                Code.CAPABILITY_UNAVAILABLE, "what serves the model changed while connecting"
            )
        self.connection = connection
        self._session.admitted = True


_admit: ContextVar[_Admit | None] = ContextVar("admit", default=None)


class _Connector(aiohttp.TCPConnector):
    """A pool whose connections are retired early and handed out through the marker."""

    def __init__(self) -> None:
        super().__init__(limit=0, keepalive_timeout=IDLE_SECONDS)
        self._uses: WeakKeyDictionary[ResponseHandler, int] = WeakKeyDictionary()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[aiohttp.tracing.Trace],
        timeout: aiohttp.ClientTimeout,
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            if protocol is None:
                raise ConnectFailed
            uses = self._uses.get(protocol, 0) + 1
            if uses <= MAX_USES:
                break
            connection.close()
        self._uses[protocol] = uses
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
                total=None, sock_read=None, sock_connect=self._connect_seconds
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
                        data=body,
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
                _abort(admit.connection)
            if response is not None:
                response.close()


def lost(message: str) -> ContractError:
    """A transport that ended before the answer did."""
    return ContractError(Code.TRANSPORT_LOST, message)


def _headers(target: Target, headers: Mapping[str, str]) -> dict[str, str]:
    sent = {"Content-Type": "application/json", **headers, "Accept-Encoding": "identity"}
    if target.endpoint.api_key is not None:
        sent["Authorization"] = f"Bearer {target.endpoint.api_key}"
    return sent


def _abort(connection: Connection | None) -> None:
    # Closing would first wait for what is still to be written; the provider is to know now.
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


async def read_chunk(session: Session, response: aiohttp.ClientResponse) -> bytes:
    """What has come of the body, at least one byte; empty at its clean end."""
    try:
        with session.interruptible():
            return await response.content.readany()
    except (aiohttp.ClientError, OSError, TimeoutError):
        raise lost("the connection to the provider broke before its answer ended") from None
