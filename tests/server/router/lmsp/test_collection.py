"""Rounds of collecting: soon, then about every ten minutes, whatever becomes of one."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pumas_server.router.lmsp.collection import collect_for_ever
from pumas_server.router.lmsp.request_records import RecordsUnavailable
from support.virtual_time import run_in_virtual_time

HOUR = 3600.0


class Rounds:
    """When they began; some fail."""

    def __init__(self, failing: range = range(0)) -> None:
        self.began: list[float] = []
        self._failing = failing

    async def collect(self) -> None:
        self.began.append(asyncio.get_running_loop().time())
        if len(self.began) - 1 in self._failing:
            raise RecordsUnavailable("The router could not list.")


def collected(*parties: Rounds, seconds: float = HOUR) -> None:
    async def run() -> None:
        tasks = [asyncio.create_task(collect_for_ever(each)) for each in parties]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)

    run_in_virtual_time(run())


def test_a_round_comes_soon_and_then_every_ten_minutes_and_a_bit() -> None:
    rounds = Rounds()
    collected(rounds)
    assert rounds.began[0] <= 60
    pauses = [b - a for a, b in zip(rounds.began, rounds.began[1:], strict=False)]
    assert len(pauses) in (4, 5)
    assert all(600 <= pause <= 720 for pause in pauses)


def test_routers_do_not_come_together() -> None:
    parties = [Rounds() for _ in range(3)]
    collected(*parties)
    began = [at for each in parties for at in each.began]
    assert len(set(began)) == len(began)


def test_trouble_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    rounds = Rounds(failing=range(1, 4))
    with caplog.at_level(logging.WARNING):
        collected(rounds)
    assert len(rounds.began) >= 5
    assert [record.getMessage() for record in caplog.records] == [
        "old records: The router could not list.",
        "old records: collected again",
    ]
