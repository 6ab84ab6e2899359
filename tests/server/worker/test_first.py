"""The first of several ends them all."""

from __future__ import annotations

import asyncio

import pytest

from pumas_server.worker.first import first


async def value(result: str) -> str:
    return result


class Forever:
    """A coroutine that tells whether it was ended."""

    def __init__(self) -> None:
        self.ended = False

    async def __call__(self) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True
        return "never"


async def failing() -> str:
    raise LookupError("broken")


async def test_its_result_counts_and_the_others_end() -> None:
    slow = Forever()
    assert await first(slow(), value("quick")) == "quick"
    assert slow.ended


async def test_its_exception_counts() -> None:
    slow = Forever()
    with pytest.raises(LookupError):
        await first(slow(), failing())
    assert slow.ended


async def test_of_two_that_ended_the_first_named_counts() -> None:
    assert await first(value("a"), value("b")) == "a"


async def test_cancelled_it_leaves_nothing_behind() -> None:
    slow = Forever()
    task = asyncio.create_task(first(slow(), Forever()()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert slow.ended
    assert asyncio.all_tasks() == {asyncio.current_task()}
