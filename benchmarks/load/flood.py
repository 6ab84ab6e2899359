"""One flood after another of the same kind, until it is told to end (SIGTERM).

    python flood.py NAME PORT

Prints a line once it is about to begin, and one JSON object at its end: how many connections or
calls it was, and how often it was cut off and began anew. What a flood is answered is the tests' to
say; here it only has to go on.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop
from streams import build_body

from support.floods import (
    CHAT,
    OPERATIONS,
    huge_bodies,
    malformed_json,
    opened_and_dropped,
    vanishing,
)
from support.raw_caller import calling, post

SLOW = 1000
HUGE = 64
LEAVING = 75
#: Between two bytes of a slow connection.
_DRIP_SECONDS = 1.0


class Flood:
    """What it amounts to so far."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.count = 0
        self.cut = 0
        """How often a connection of it was cut before it had its answer."""

    async def headers(self) -> None:
        """Connections whose header comes byte by byte."""
        await self._drip(lambda index: b"POST / HTTP/1.1\r\nhost: x\r\nx: ")

    async def bodies(self) -> None:
        """Requests whose body comes byte by byte."""
        await self._drip(lambda index: post((OPERATIONS, CHAT)[index % 2], b"{", announced=100_000))

    async def blanks(self) -> None:
        """Bodies of 32 MiB, all at once, of nothing but white space."""
        await self._huge(b"", b" ")

    async def values(self) -> None:
        """Bodies of 32 MiB, all at once, of as many values as there is room for."""
        await self._huge(b'{"a":[', b"[],")

    async def texts(self) -> None:
        """Bodies of 32 MiB, all at once, of one string."""
        await self._huge(b'{"a":"', "é".encode())

    async def malformed(self) -> None:
        """Bodies that cannot be read, on ten connections."""
        await malformed_json(self._port, 500)
        self.count += 500

    async def dropped(self) -> None:
        """Connections that are opened and reset."""
        await opened_and_dropped(self._port, 500)
        self.count += 500

    async def leaving(self) -> None:
        """Callers that go at random: in their request, or in the middle of a stream."""

        async def one(index: int) -> None:
            await asyncio.sleep(random.random())
            while True:
                await (self._leave(index) if index % 3 else vanishing(self._port, 2))
                self.count += 1 if index % 3 else 2

        await asyncio.gather(*map(one, range(LEAVING)))

    async def _huge(self, begin: bytes, unit: bytes) -> None:
        await huge_bodies(self._port, HUGE, begin, unit)
        self.count += HUGE

    async def _leave(self, index: int) -> None:
        path, model = ((OPERATIONS, "talk"), (CHAT, "llm"))[index % 2]
        async with calling(self._port) as caller:
            await caller.send(post(path, build_body(path, model, 100, 20)))
            with suppress(TimeoutError):
                async with asyncio.timeout(random.random()):
                    while await caller.reader.read(65_536):
                        pass

    async def _drip(self, first: Callable[[int], bytes]) -> None:
        async def one(index: int) -> None:
            await asyncio.sleep(random.random() * _DRIP_SECONDS)
            while True:
                self.count += 1
                async with calling(self._port) as caller:
                    with suppress(ConnectionError):
                        await caller.send(first(index))
                        while not caller.reader.at_eof():
                            await asyncio.sleep(_DRIP_SECONDS)
                            await caller.send(b"1")

        await asyncio.gather(*map(one, range(SLOW)))


FLOODS: dict[str, Callable[[Flood], Awaitable[None]]] = {
    "slow headers": Flood.headers,
    "slow bodies": Flood.bodies,
    "32 MiB of blanks": Flood.blanks,
    "32 MiB of values": Flood.values,
    "32 MiB of text": Flood.texts,
    "malformed JSON": Flood.malformed,
    "opened and dropped": Flood.dropped,
    "vanishing callers": Flood.leaving,
}


async def main(name: str, port: int) -> None:
    """Flood until told to end."""
    flood = Flood(port)

    async def for_ever() -> None:
        while True:
            try:
                await FLOODS[name](flood)
            except (OSError, EOFError):
                flood.cut += 1

    task = asyncio.create_task(for_ever())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    print("begins", flush=True)
    with suppress(asyncio.CancelledError):
        await task
    print(json.dumps({"count": flood.count, "cut": flood.cut}))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
