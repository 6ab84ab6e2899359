"""One deadline at a time, for what takes its turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """A timer that is set, set anew, and cleared; it tells when it is missed."""

    __slots__ = ("_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """Whether one is running."""
        return self._timer is not None

    def set(self, seconds: float, missed: Callable[[], None]) -> None:
        """Have `missed` called in so many seconds; a deadline that was set is forgotten."""
        self.clear()
        self._timer = self._loop.call_later(seconds, self._pass, missed)

    def clear(self) -> None:
        """Forget it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pass(self, missed: Callable[[], None]) -> None:
        self._timer = None
        missed()
