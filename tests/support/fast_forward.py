"""The clock of a running loop, set ahead: what would take seconds passes at once, over real sockets.

In small steps, with turns of the loop in between: timers run in their order, and what they send
arrives before the next step. The router's pool of connections goes by the same clock.
"""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from pumas_server.router import upstream_connection, upstream_pool

_STEP_SECONDS = 0.01
_TURNS = 5


class FastForward:
    """The time that it is for the loop in which this was made. What is made in it ends before it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", self)
        monkeypatch.setattr(upstream_pool, "monotonic", self)
        monkeypatch.setattr(upstream_connection, "monotonic", self)

    def __call__(self) -> float:
        return monotonic() + self._ahead

    async def by(self, seconds: float) -> None:
        """Let so much time pass."""
        until = self._ahead + seconds
        while self._ahead < until:
            self._ahead = min(self._ahead + _STEP_SECONDS, until)
            await turns(_TURNS)


async def turns(count: int) -> None:
    """Let whoever can do something do it, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)
