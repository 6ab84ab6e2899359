"""Turns: between two pieces of one, everybody else has had a piece, and the loop its look."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from pumas_server.router.turns import Turns


@pytest.mark.parametrize("count", [1, 2, 7])
async def test_one_piece_between_two_looks_of_the_loop(count: int) -> None:
    turns, looks, over = Turns(), [0], asyncio.Event()
    pieces: list[tuple[int, int]] = []

    async def look() -> None:
        while not over.is_set():
            looks[0] += 1
            await asyncio.sleep(0)

    async def read(index: int) -> None:
        for _ in range(5):
            await turns.turn()
            pieces.append((looks[0], index))
        turns.leave()

    for _ in range(count):
        turns.enter()
    looking = asyncio.create_task(look())
    await asyncio.gather(*map(read, range(count)))
    over.set()
    await looking
    for index in range(count):
        mine = [at for at, whose in pieces if whose == index]
        gaps = [later - sooner for sooner, later in pairwise(mine)]
        # The others who are still there go first each time.
        assert min(gaps) >= 1
        assert gaps[0] == count


async def test_whoever_left_is_not_waited_for() -> None:
    turns = Turns()
    turns.enter()
    turns.leave()
    # Nothing to wait for: it is over without the loop.
    with pytest.raises(StopIteration):
        turns.turn().send(None)
