"""An event loop whose clock jumps: a minute of timers passes at once, and always in one order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Never waits: the time that it was to wait for is over."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits, and no timer will ever wake it"
        self.now += max(timeout, 0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns, which may sleep and set timers but do no I/O."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)
