"""How many calls the engine works on: asked seldom, however often it is read.

Every answer the engine posts, this one included, delays its noticing that a client of a call
without streaming has gone. So readers share an answer until it is too old for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


class BusyGauge:
    """The last count and its age."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[int | None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = asyncio.Lock()
        self._count = 0
        self._asked_at: float | None = None

    async def read(self, fresh_seconds: float) -> int:
        """The count, asked anew when it is older than that.

        An engine that does not say is at work, on one call at least: the question waits in the
        same queue as the calls.
        """
        async with self._lock:
            if self._asked_at is None or self._clock() - self._asked_at >= fresh_seconds:
                count = await self._ask()
                self._count = max(1, self._count) if count is None else count
                self._asked_at = self._clock()
            return self._count
