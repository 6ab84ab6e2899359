"""The busy count is asked seldom and never told too low."""

from __future__ import annotations

import asyncio

from pumas_server.worker.busy import BusyGauge


class Engine:
    """Answers with the next of its counts; its clock is set by hand."""

    def __init__(self, *counts: int | None) -> None:
        self.now = 100.0
        self.asked = 0
        self._counts = list(counts)
        self.gauge = BusyGauge(self.ask, lambda: self.now)

    async def ask(self) -> int | None:
        self.asked += 1
        await asyncio.sleep(0)
        return self._counts.pop(0)


async def test_at_most_one_question_in_two_seconds() -> None:
    engine = Engine(3, 0)
    assert [await engine.gauge.read(2), await engine.gauge.read(2)] == [3, 3]
    engine.now += 1.9
    assert (await engine.gauge.read(2), engine.asked) == (3, 1)
    engine.now += 0.1
    assert (await engine.gauge.read(2), engine.asked) == (0, 2)


async def test_readers_at_the_same_time_share_it() -> None:
    engine = Engine(2)
    assert await asyncio.gather(*(engine.gauge.read(2) for _ in range(5))) == [2] * 5
    assert engine.asked == 1


async def test_a_drain_asks_every_time() -> None:
    engine = Engine(1, 0)
    assert [await engine.gauge.read(0), await engine.gauge.read(0)] == [1, 0]


async def test_an_engine_that_does_not_say_is_at_work() -> None:
    engine = Engine(None, 3, None)
    assert [await engine.gauge.read(0) for _ in range(3)] == [1, 3, 3]
