"""`/healthz`: whether a restart would help.

It would when events have ceased to flow: the leader renews its Lease every ten seconds and watches
it, as it watches everything, so a renewal that no event follows means that nothing else is seen
either. It would not while the API server is away, nor for one that waits to lead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from aiohttp import web

SILENCE_SECONDS = 60.0


class Health:
    """Judges the pulse of a leader."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._felt_at = clock()
        self._leads_since: float | None = None
        self.renewed_at: Callable[[], float | None] = lambda: None

    def leads(self) -> None:
        """This operator leads from now on, so that events must come."""
        self._leads_since = self._clock()

    def pulse(self) -> None:
        """An event came."""
        self._felt_at = self._clock()

    def fault(self) -> str | None:
        """Why the process should be restarted."""
        renewed, since = self.renewed_at(), self._leads_since
        if renewed is None or since is None:
            return None
        silence = renewed - max(self._felt_at, since)
        if silence <= SILENCE_SECONDS:
            return None
        return f"no event for {silence:.0f} s though the Lease was renewed"

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[None]:
        """Answer on that port of all addresses while the block lasts."""
        app = web.Application()
        app.router.add_get("/healthz", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, port=port).start()
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        fault = self.fault()
        return web.Response(status=200 if fault is None else 503, text=fault or "ok")
