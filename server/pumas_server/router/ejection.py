"""Ejection: a pod that could not be connected to is out of the choice until it says it is ready.

Its supervisor is asked for `/readyz`: at once, then after pauses that grow. A pod that says yes and
refuses again soon after goes on where its pauses were: whoever calls it meets the refusal now and
then, and not every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pumas_server.router.background import start
from pumas_server.router.observations import ObservationKey
from pumas_server.router.source import Endpoint

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
#: A pod that was back for so long has earned to be asked at once again.
TRUSTED_SECONDS = 10.0


@dataclass(slots=True)
class _Ejected:
    """One endpoint that is out, or was not long ago."""

    pause: float = 0.0
    back_at: float | None = None
    """When it came back; None while it is out."""
    task: asyncio.Task[None] | None = None


class Ejections:
    """Which endpoints are out, and a task for each that brings it back."""

    def __init__(
        self, ready: Callable[[Endpoint], Awaitable[bool]], returned: Callable[[], None]
    ) -> None:
        """`ready` asks an endpoint and never raises; `returned` is told of every return."""
        self._ready = ready
        self._returned = returned
        self._known: dict[ObservationKey, _Ejected] = {}

    def __contains__(self, key: ObservationKey) -> bool:
        known = self._known.get(key)
        return known is not None and known.back_at is None

    def eject(self, key: ObservationKey, endpoint: Endpoint) -> None:
        """Take an endpoint out, until it says that it is ready. Does nothing if it is out."""
        if key in self:
            return
        now = asyncio.get_running_loop().time()
        known = self._known.get(key)
        if known is None or known.back_at is None or now - known.back_at >= TRUSTED_SECONDS:
            known = self._known[key] = _Ejected()
        known.back_at = None
        known.task = start(self._bring_back(known, endpoint), f"readyz-{endpoint.uid}")

    def forget(self, key: ObservationKey) -> None:
        """The endpoint is no more."""
        known = self._known.pop(key, None)
        if known is not None and known.task is not None:
            known.task.cancel()

    async def close(self) -> None:
        """Ask nobody any more."""
        tasks = [known.task for known in self._known.values() if known.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _bring_back(self, known: _Ejected, endpoint: Endpoint) -> None:
        while True:
            await asyncio.sleep(known.pause)
            known.pause = min(max(known.pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
            if await self._ready(endpoint):
                break
        known.back_at = asyncio.get_running_loop().time()
        self._returned()
