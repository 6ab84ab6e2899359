"""Lookups of names: one at a time for each, shared, and never in the way of another name."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pumas_server.router.addresses import Addresses
from pumas_server.router.origin import Origin

SLOW, OTHER = Origin("slow.example", 80, tls=False), Origin("other.example", 80, tls=False)
FOUND = [(2, 1, 6, "", ("10.0.0.1", 80))]


class Names:
    """The loop's lookups, which end as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.ends: dict[str, asyncio.Future[list[object]]] = {}
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self._look_up)

    async def _look_up(self, host: str, *_: object, **__: object) -> list[object]:
        self.asked.append(host)
        self.ends[host] = asyncio.get_running_loop().create_future()
        return await self.ends[host]


async def test_one_lookup_of_a_name_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    names, addresses = Names(monkeypatch), Addresses()
    waiting = [asyncio.create_task(addresses.find(SLOW)) for _ in range(40)]
    other = asyncio.create_task(addresses.find(OTHER))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert names.asked == ["slow.example", "other.example"]
    names.ends["other.example"].set_result([])
    assert await other == []
    names.ends["slow.example"].set_result([*FOUND])
    assert await asyncio.gather(*waiting) == [FOUND] * 40


async def test_who_leaves_takes_it_from_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    names, addresses = Names(monkeypatch), Addresses()
    first, second = (asyncio.create_task(addresses.find(SLOW)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    names.ends["slow.example"].set_result([*FOUND])
    assert await second == FOUND


async def test_a_failure_is_everybodys_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    names, addresses = Names(monkeypatch), Addresses()
    waiting = [asyncio.create_task(addresses.find(SLOW)) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    names.ends["slow.example"].set_exception(socket.gaierror("no such name"))
    for one in waiting:
        with pytest.raises(socket.gaierror):
            await one
    again = asyncio.create_task(addresses.find(SLOW))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    names.ends["slow.example"].set_result([*FOUND])
    assert await again == FOUND
    assert names.asked == ["slow.example"] * 2


async def test_at_the_end_nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch)
    addresses = Addresses()
    waiting = asyncio.create_task(addresses.find(SLOW))
    await asyncio.sleep(0)
    addresses.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert addresses._running == {}
