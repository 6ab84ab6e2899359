"""The pace of the bodies of one connection, watched by one timer that is left alone meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pumas_server.router.body_pace import BodyPace


class BodyWatch:
    """Tells once when a body is late, and from then on nothing until another one came.

    The timer is left alone while bodies come and go, and looks again: a body that came whole with
    its header costs nothing, and another at most one timer in `silence` seconds.
    """

    def __init__(
        self,
        silence: float,
        least_rate: float,
        paused: Callable[[], bool],
        late: Callable[[], None],
    ) -> None:
        """`paused` says whether it is we who do not read; `late` is told."""
        self._silence = silence
        self._least_rate = least_rate
        self._paused = paused
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._pace: BodyPace | None = None
        self._timer: asyncio.TimerHandle | None = None

    def came(self, count: int) -> None:
        """Some of a body that has not ended."""
        now = self._loop.time()
        if self._pace is None:
            self._pace = BodyPace(self._silence, self._least_rate, now, now)
        self._pace.came(count, now)
        if self._timer is None:
            self._timer = self._loop.call_at(self._pace.late_at(), self._look)

    def ended(self) -> None:
        """The body is whole, or nobody waits for it any more."""
        self._pace = None

    def close(self) -> None:
        """The connection is gone."""
        self._pace = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._pace is None:
            return
        now = self._loop.time()
        if self._paused():
            self._pace.excuse(now)
        if (late_at := self._pace.late_at()) > now:
            self._timer = self._loop.call_at(late_at, self._look)
            return
        self._pace = None
        self._late()
