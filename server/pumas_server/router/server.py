"""Serving a `Router` over HTTP: uvicorn, with the stop sequence in our hands.

uvicorn alone would close its listener at the first signal. Here a stop turns readiness off, goes on
accepting for `propagation_seconds`, closes the listener, lets admitted calls finish for
`drain_seconds`, then ends what is left (design *Stop*).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn

from pumas_server.router.app import Router
from pumas_server.router.connection import CallerConnection

#: How long uvicorn may take to close what `shutdown` has ended.
_CLOSE_SECONDS = 5


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(router: Router, listener: socket.socket) -> AsyncIterator[None]:
    """Serve while the block lasts; leaving it is an orderly stop."""
    server = _Server(
        uvicorn.Config(
            router,
            http=CallerConnection,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
    )
    async with router.run():
        task = asyncio.create_task(server.serve(sockets=[listener]), name="uvicorn")
        try:
            yield
        finally:
            try:
                await _stop(router, server)
            finally:
                await task


async def _stop(router: Router, server: uvicorn.Server) -> None:
    """The stop sequence. Cancelled, it waits no longer, and what is left is told nevertheless."""
    router.drain()
    try:
        await asyncio.sleep(router.settings.propagation_seconds)
        for listening in getattr(server, "servers", []):
            listening.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(router.settings.drain_seconds):
                await router.sessions.until_idle()
    finally:
        router.shutdown()
        server.should_exit = True
