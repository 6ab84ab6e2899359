"""One deadline at a time."""

from __future__ import annotations

import asyncio

from pumas_server.router.deadline import Deadline
from support.virtual_time import run_in_virtual_time


def missed(*settings: float | None) -> list[int]:
    """Which of the deadlines is missed, of those set a second after the other; None clears."""

    async def wait() -> list[int]:
        deadline, told = Deadline(asyncio.get_running_loop()), list[int]()
        for number, seconds in enumerate(settings):
            if seconds is None:
                deadline.clear()
            else:
                deadline.set(seconds, lambda number=number: told.append(number))  # type: ignore[misc]
            assert deadline.is_set == (seconds is not None)
            await asyncio.sleep(1)
        await asyncio.sleep(100)
        assert not deadline.is_set
        return told

    return run_in_virtual_time(wait())


def test_it_is_told_once_when_it_is_missed() -> None:
    assert missed(10) == [0]


def test_one_that_is_set_anew_is_forgotten() -> None:
    assert missed(10, 10) == [1]
    assert missed(0.5, 10) == [0, 1]


def test_one_that_is_cleared_is_forgotten() -> None:
    assert missed(10, None) == []
    assert missed(None) == []
