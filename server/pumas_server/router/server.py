"""Serving a `Router` over HTTP: uvicorn, with the stop sequence in our hands.

uvicorn alone would close its listener at the first signal. Here a stop turns readiness off, goes on
accepting for `propagation_seconds`, closes the listener, lets admitted calls finish for
`drain_seconds`, then ends what is left (design *Stop*).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import cast

import uvicorn

from pumas_server.router.app import Router
from pumas_server.router.connection import CallerConnection
from pumas_server.router.file_descriptors import have_descriptors, share_out, wanted
from pumas_server.router.listener import is_loopback

_log = logging.getLogger(__name__)

SWITCH_SECONDS = 0.001
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
    router.fence.loopback_only = is_loopback(listener.getsockname()[0])
    connection = functools.partial(CallerConnection, connections=router.connections)
    server = _Server(
        uvicorn.Config(
            router,
            http=cast("type[asyncio.Protocol]", connection),
            ws="none",
            backlog=_fit_connections(router),
            lifespan="off",
            access_log=False,
            proxy_headers=False,
            log_config=None,
            server_header=False,
            date_header=False,
            timeout_keep_alive=cast("int", router.settings.idle_seconds),
            timeout_graceful_shutdown=_CLOSE_SECONDS,
        )
    )
    # Media are checked and long bodies read on threads; a thread that computes gives the loop its
    # turn after this long, and not after the interpreter's own 5 ms.
    sys.setswitchinterval(SWITCH_SECONDS)
    async with router.run():
        task = asyncio.create_task(server.serve(sockets=[listener]), name="uvicorn")
        try:
            yield
        finally:
            try:
                await _stop(router, server)
            finally:
                await task


def _fit_connections(router: Router) -> int:
    """Accept as many connections as there are descriptors for; gives how many may queue."""
    most, upstream = router.settings.max_connections, router.settings.max_in_flight
    descriptors = have_descriptors(wanted(most, upstream))
    shares = share_out(descriptors, most, upstream)
    if shares.connections < most:
        _log.warning(
            "%d file descriptors are enough for %d connections, not for %d",
            *(descriptors, shares.connections, most),
        )
    router.connections.most = shares.connections
    return shares.backlog


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
