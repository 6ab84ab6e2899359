"""Carries calls out on the engine's own threads, and knows how many there are.

Queued calls wait in order. One whose caller leaves before its turn is dropped; one that is being
computed runs to its end, since the library cannot stop halfway, and counts as busy until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

from pumas_server.worker.own_surface import CallerLeft


class Calls:
    """The running and the waiting calls of one engine."""

    def __init__(self, slots: int) -> None:
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="slot")
        self.slots = slots
        self.pending = 0
        """Calls that are being computed or wait for it. Touched by the event loop alone."""

    @property
    def busy(self) -> int:
        """Slots at work: a call waits only while all of them are."""
        return min(self.pending, self.slots)

    async def run(self, work: Callable[[], bytes], left: Coroutine[None, None, None]) -> bytes:
        """What `work` returns or raises; `CallerLeft` when `left` comes first."""
        loop = asyncio.get_running_loop()
        self.pending += 1
        call = self._pool.submit(work)
        call.add_done_callback(lambda _: loop.call_soon_threadsafe(self._done))
        answer = asyncio.wrap_future(call)
        leaving = asyncio.create_task(left)
        try:
            await asyncio.wait((answer, leaving), return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise CallerLeft
        finally:
            leaving.cancel()
            # Takes the call out of the queue, if it still waits there.
            answer.cancel()

    def _done(self) -> None:
        self.pending -= 1
