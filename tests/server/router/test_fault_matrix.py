"""Every kind of answer broken at every byte, by FIN, by RST, and by a stall until the caller leaves.

Through the running router, over sockets. What each position has to mean follows from HTTP alone and
is written down once, in `expected`: a cut answer is lost where its framing tells the cut, incoherent
where the end of the connection is its only end, and a success where all of it came.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from support.calls import CALLS, Call, Framing, raw_answer
from support.faults import BROKEN, OK, Bench, Told, bench
from support.routers import SHARED_LOOP
from support.upstream import Conversation, Script

pytestmark = SHARED_LOOP

FIN, RST = "fin", "rst"
MAX_BYTES = 600
AT_ONCE = 32
WAVE_SECONDS = 30
"""That one caller's leaving takes less than a second is tested elsewhere."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Bench]:
    async with bench() as made:
        yield made


def expected(call: Call, framing: Framing, fault: str, position: int) -> tuple[int, str]:
    """Status and code of an answer that broke after so many bytes."""
    head, body = raw_answer(call, framing)
    headless = position < len(head)
    at_end = position == len(head) + len(body)
    if at_end and (framing is not Framing.CLOSE or fault == FIN):
        return 200, OK
    if fault == FIN and framing is Framing.CLOSE and not headless:
        # Nothing in HTTP tells this cut. An OpenAI route hands on what it got; an operation does
        # not make sense of it.
        if not call.operation:
            return 200, OK
        return (200 if call.streamed else 502), "invalid_provider_result"
    if headless or not call.streamed:
        return 502, "transport_lost"
    return 200, "transport_lost" if call.operation else BROKEN


def breaks(raw: bytes, position: int, fault: str) -> Script:
    async def script(talk: Conversation) -> None:
        await talk.send(raw[:position])
        talk.cut() if fault == FIN else talk.reset()

    return script


def waves(total: int) -> Iterator[range]:
    """All positions, many at a time; the last one alone.

    A connection that ends right after a whole answer may still be taken from the pool by a call
    that runs beside it: HTTP has no remedy for that, and no engine of ours does it.
    """
    for start in range(0, total, AT_ONCE):
        yield range(start, min(start + AT_ONCE, total))
    yield range(total, total + 1)


@pytest.mark.parametrize("fault", [FIN, RST])
@pytest.mark.parametrize("framing", Framing)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
async def test_broken_at_every_byte(
    shared: Bench, call: Call, framing: Framing, fault: str
) -> None:
    head, body = raw_answer(call, framing)
    raw = head + body
    assert len(raw) <= MAX_BYTES
    before = await shared.operations()
    outcomes: Counter[tuple[str, str]] = Counter()
    for positions in waves(len(raw)):
        asked = [shared.ask(call, f"at{p}", breaks(raw, p, fault)) for p in positions]
        for position, told in zip(positions, await asyncio.gather(*asked), strict=True):
            where = f"broken after {raw[:position]!r}"
            assert shared.counts[f"at{position}"] == 1, where
            assert (told.status, told.code) == expected(call, framing, fault, position), where
            if told.code not in (OK, BROKEN):
                assert told.outcome == "unknown", where
            if told.code == OK and not call.operation:
                assert told.body == dechunked(framing, raw[len(head) : position], body), where
            outcomes[_recorded(told)] += 1
        await shared.works(call)
        outcomes[OK, "succeeded"] += 1
    assert await shared.operations() - before == {
        (call.capability, code, outcome, call.path): count
        for (code, outcome), count in outcomes.items()
    }


def dechunked(framing: Framing, part: bytes, body: bytes) -> bytes:
    """The payload in a body that came whole, or as far as a connection's end tells."""
    if framing is not Framing.CHUNKED:
        return part
    assert part == body
    payload = b""
    while part:
        size, _, rest = part.partition(b"\r\n")
        payload, part = payload + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return payload


def _recorded(told: Told) -> tuple[str, str]:
    """Code and outcome in the router's own books."""
    if told.code == BROKEN:
        return "transport_lost", "unknown"
    return told.code, told.outcome


@pytest.mark.parametrize("framing", Framing)
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
async def test_a_stall_at_every_byte_until_the_caller_leaves(
    shared: Bench, call: Call, framing: Framing
) -> None:
    head, body = raw_answer(call, framing)
    raw = head + body
    before = await shared.operations()
    after: Counter[tuple[str, ...]] = Counter()
    # A whole answer whose end needs no end of the connection cannot stall.
    stalls = len(raw) + (framing is Framing.CLOSE)
    for start in range(0, stalls, AT_ONCE):
        positions = range(start, min(start + AT_ONCE, stalls))
        go = asyncio.Event()
        stalled = [Stalled(raw[:position]) for position in positions]
        async with asyncio.timeout(WAVE_SECONDS), asyncio.TaskGroup() as leaving:
            for position, stall in zip(positions, stalled, strict=True):
                leaving.create_task(stall.leave(shared, call, f"at{position}", len(head), go))
            await asyncio.gather(*(stall.sent.wait() for stall in stalled))
            # All that was sent before this question has been read when it is answered.
            await shared.running.get("/healthz")
            assert shared.running.router.admission.in_flight == len(positions)
            go.set()
        assert {shared.counts[f"at{position}"] for position in positions} == {1}
        await shared.works(call)
        after[call.capability, OK, "succeeded", call.path] += 1
    after[call.capability, "transport_lost", "unknown", call.path] = stalls
    assert await shared.operations() - before == after


class Stalled:
    """A provider that sends a part, and a caller that leaves instead of waiting for the rest."""

    def __init__(self, part: bytes) -> None:
        self.part = part
        self.sent = asyncio.Event()
        self.left = asyncio.Event()

    async def script(self, talk: Conversation) -> None:
        await talk.send(self.part)
        self.sent.set()
        await talk.caller_left()
        self.left.set()

    async def leave(
        self, shared: Bench, call: Call, marker: str, head: int, go: asyncio.Event
    ) -> None:
        shared.scripts[marker], shared.counts[marker] = self.script, 0
        async with shared.running.raw(call.path, call.body(marker)) as (reader, _):
            first_line = asyncio.create_task(reader.readline())
            sent = asyncio.create_task(self.sent.wait())
            await asyncio.wait({first_line, sent}, return_when=asyncio.FIRST_COMPLETED)
            assert self.sent.is_set(), await first_line
            if call.streamed and len(self.part) >= head:
                assert (await first_line).startswith(b"HTTP/1.1 200 ")
            await go.wait()
            first_line.cancel()
            reader.feed_eof()
            got = await reader.read()
            assert b"completed" not in got
            assert b"failed" not in got
        await self.left.wait()
