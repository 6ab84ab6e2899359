"""Watching a body: told once, by one timer; what was not read is excused."""

from __future__ import annotations

import asyncio

from pumas_server.router.body_watch import BodyWatch
from support.eventually import eventually


class Watched:
    """A watch whose body may be late after a moment."""

    def __init__(self, silence: float = 0.05) -> None:
        self.told = 0
        self.paused = False
        self.watch = BodyWatch(silence, 1e9, lambda: self.paused, self._late)

    def _late(self) -> None:
        self.told += 1


async def test_a_late_body_is_told_once() -> None:
    watched = Watched()
    watched.watch.came(10)
    await eventually(lambda: watched.told, "it is late")
    await asyncio.sleep(0.15)
    assert watched.told == 1
    # The next one has its own time.
    watched.watch.came(10)
    await eventually(lambda: watched.told == 2, "it is late too")


async def test_one_that_ended_is_not_late_nor_one_whose_connection_is_gone() -> None:
    ended, gone = Watched(), Watched()
    ended.watch.came(10)
    ended.watch.ended()
    gone.watch.came(10)
    gone.watch.close()
    await asyncio.sleep(0.15)
    assert (ended.told, gone.told) == (0, 0)


async def test_while_we_do_not_read_it_is_not_late() -> None:
    watched = Watched()
    watched.watch.came(10)
    watched.paused = True
    await asyncio.sleep(0.2)
    assert watched.told == 0
    watched.paused = False
    await eventually(lambda: watched.told == 1, "it is late")


async def test_bodies_one_after_the_other_share_a_timer() -> None:
    watched = Watched(silence=60)
    watched.watch.came(1)
    timer = watched.watch._timer
    for _ in range(100):
        watched.watch.ended()
        watched.watch.came(1)
    assert watched.watch._timer is timer
    watched.watch.close()
