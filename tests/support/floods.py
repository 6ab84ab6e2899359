"""Callers that mean harm, or have gone wrong: each makes its flood once and returns when it is over.

What they are answered is looked at; that the router is as it was before is for the test to say.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from contextlib import AsyncExitStack

from support.raw_caller import calling, post
from support.routers import chat_operation

OPERATIONS = "/v1/model-operations"
CHAT = "/v1/chat/completions"

_BODY_BYTES = 33_554_432


async def slow_headers(port: int, count: int) -> Counter[int]:
    """Connections whose header never ends; the statuses that they got."""
    got: Counter[int] = Counter()
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(calling(port)) for _ in range(count)]
        for index, caller in enumerate(callers):
            await caller.send((b"POST / HTTP/1.1\r\nhost: x\r\nx: y")[: 1 + index % 30])
        for answer in await asyncio.gather(*(caller.answer(30) for caller in callers)):
            got[answer.status] += 1
    return got


async def slow_bodies(port: int, count: int) -> Counter[int]:
    """Requests whose body never ends."""

    async def one(index: int) -> int:
        path = (OPERATIONS, CHAT)[index % 2]
        async with calling(port) as caller:
            await caller.send(post(path, b"{" * (index % 3), announced=1000))
            return (await caller.answer(30)).status

    return Counter(await asyncio.gather(*map(one, range(count))))


async def huge_bodies(
    port: int, count: int, begin: bytes = b"", unit: bytes = b" "
) -> Counter[int]:
    """Bodies of 32 MiB, all at once, that are no JSON at their very end."""
    piece = unit * (1_048_576 // len(unit))

    async def one() -> int:
        async with calling(port) as caller:
            await caller.send(post(OPERATIONS, begin, announced=_BODY_BYTES))
            reading = asyncio.create_task(caller.answer(60))
            left = _BODY_BYTES - len(begin)
            try:
                while left > 0 and not reading.done():
                    await caller.send(piece[:left])
                    left -= len(piece)
            except ConnectionError:
                # Cut while it went on sending: it had its answer.
                assert reading.done()
            return (await reading).status

    return Counter(await asyncio.gather(*(one() for _ in range(count))))


async def malformed_json(port: int, count: int) -> Counter[int]:
    """Bodies that are cut, doubled, nested, or no text, one after the other on a few connections."""
    whole = json.dumps(chat_operation()).encode()
    bodies = (whole[:-1], whole * 2, b"[" * 5000, b"\xff\xfe", b"", b'{"a":' * 200, whole[1:])

    async def some(first: int) -> Counter[int]:
        got: Counter[int] = Counter()
        async with calling(port) as caller:
            for index in range(first, count, 10):
                await caller.send(post((OPERATIONS, CHAT)[index % 2], bodies[index % len(bodies)]))
                got[(await caller.answer(30)).status] += 1
        return got

    return sum(await asyncio.gather(*map(some, range(10))), Counter())


async def no_http(port: int, count: int) -> Counter[int]:
    """Connections that speak something else."""

    async def one(index: int) -> int:
        async with calling(port) as caller:
            await caller.send(random.Random(index).randbytes(200) + b"\r\n\r\n")
            return (await caller.answer(30)).status

    got: Counter[int] = Counter()
    for start in range(0, count, 20):
        got += Counter(await asyncio.gather(*map(one, range(start, min(start + 20, count)))))
    return got


async def opened_and_dropped(port: int, count: int) -> None:
    """Connections that are opened and reset, some with a byte or two sent."""

    async def one(index: int) -> None:
        async with calling(port) as caller:
            caller.writer.write(b"POST / HT"[: index % 10])

    for start in range(0, count, 100):
        await asyncio.gather(*map(one, range(start, min(start + 100, count))))


async def vanishing(port: int, count: int) -> None:
    """Streams whose callers go at some point of them."""

    async def one(index: int) -> None:
        chance = random.Random(index)
        if index % 2:
            asked = post(OPERATIONS, json.dumps(chat_operation(stream=True)).encode())
        else:
            asked = post(CHAT, json.dumps({"model": "llm", "stream": True}).encode())
        async with calling(port) as caller:
            await caller.send(asked[: chance.randint(1, 2 * len(asked))])
            left = chance.randint(0, 2000)
            try:
                async with asyncio.timeout(chance.random() / 10):
                    while left > 0 and (piece := await caller.reader.read(left)):
                        left -= len(piece)
            except TimeoutError:
                return

    for start in range(0, count, 25):
        await asyncio.gather(*map(one, range(start, min(start + 25, count))))
