"""Connections that are refused, never come about, or lose one of their ends, for every kind of call.

While connecting nothing was sent: `not_admitted`. From the moment something may have been, the
answer is `unknown`, also when the provider can be shown not to have read a byte.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import pytest_asyncio

from pumas_server.router.settings import RouterSettings
from support.calls import CALLS, Call, Framing, raw_answer
from support.eventually import eventually
from support.faults import BROKEN, OK, Bench, Told, bench, sends, told
from support.routers import SHARED_LOOP
from support.upstream import Conversation, Script

pytestmark = SHARED_LOOP

CONNECT_SECONDS = 0.5
SETTINGS = RouterSettings(propagation_seconds=0, drain_seconds=0.2, connect_seconds=CONNECT_SECONDS)


@pytest_asyncio.fixture(loop_scope="module")
async def alone() -> AsyncIterator[Bench]:
    """Of one test, which may end its provider. The router does not look at it again."""
    async with bench(SETTINGS) as made:
        made.running.router.workers.unreachable = lambda endpoint: None  # type: ignore[method-assign]
        yield made


@contextmanager
def listening(port: int, backlog: int) -> Iterator[socket.socket]:
    """The provider's port, taken by somebody who accepts nothing."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen(backlog)
        taken.setblocking(False)
        yield taken


async def ask_all(alone: Bench) -> list[Told]:
    """A call of every kind, all at once."""
    running = alone.running
    return await asyncio.gather(*(told(running, call, call.body("x")) for call in CALLS))


async def assert_not_admitted(alone: Bench, answers: list[Told]) -> None:
    for call, answer in zip(CALLS, answers, strict=True):
        assert (answer.status, answer.code) == (503, "capability_unavailable"), call.name
        assert answer.outcome == "not_admitted"
        assert answer.headers["retry-after"] == "1"
        assert answer.message == "no endpoint of the model can be reached"
    await alone.running.idle()
    assert await alone.operations() == Counter(
        (call.capability, "capability_unavailable", "not_admitted", call.path) for call in CALLS
    )


async def test_refused(alone: Bench) -> None:
    await alone.provider.aclose()
    await assert_not_admitted(alone, await ask_all(alone))
    assert alone.upstream.seen == []


async def test_refused_although_there_was_a_connection(alone: Bench) -> None:
    """A pooled connection that the provider has closed is not tried, and not mourned."""
    await alone.works(*CALLS)
    before = await alone.operations()
    seen = len(alone.upstream.seen)
    await alone.provider.aclose()
    # When this is answered, the end of the connections has been read.
    await alone.running.get("/healthz")
    answers = await ask_all(alone)
    assert {answer.outcome for answer in answers} == {"not_admitted"}
    assert len(alone.upstream.seen) == seen
    await alone.running.idle()
    assert sum((await alone.operations() - before).values()) == len(CALLS)


async def test_a_connection_that_does_not_come_about(alone: Bench) -> None:
    await alone.provider.aclose()
    with listening(alone.upstream.port, 0), socket.socket() as first, socket.socket() as second:
        for filling in (first, second):
            # One waits to be accepted; from then on nobody is answered.
            filling.setblocking(False)
            filling.connect_ex(("127.0.0.1", alone.upstream.port))
        started = time.monotonic()
        answers = await ask_all(alone)
        assert CONNECT_SECONDS * 0.9 < time.monotonic() - started < CONNECT_SECONDS + 5
        await assert_not_admitted(alone, answers)


async def test_a_provider_that_dies_with_the_request_unread(alone: Bench) -> None:
    """Its system has taken the request, nobody read it: that cannot be known here."""
    await alone.provider.aclose()
    with listening(alone.upstream.port, 64) as listener:
        asked = asyncio.create_task(ask_all(alone))
        loop = asyncio.get_running_loop()
        for _ in CALLS:
            connection, _ = await asyncio.wait_for(loop.sock_accept(listener), 5)
            with connection:
                await eventually(partial(_sent, connection), "the request has come")
        answers = await asked
    for call, answer in zip(CALLS, answers, strict=True):
        assert (answer.status, answer.code) == (502, "transport_lost"), call.name
        assert answer.outcome == "unknown"
    await alone.running.idle()
    await alone.operations()


def _sent(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Bench]:
    async with bench() as made:
        yield made


def half_closes(data: bytes) -> Script:
    """A provider that ends its own side only, and goes on listening."""

    async def script(talk: Conversation) -> None:
        await talk.send(data)
        talk.writer.write_eof()
        await talk.caller_left()

    return script


@pytest.mark.parametrize("place", ["nothing", "half a header", "a header", "half", "all"])
@pytest.mark.parametrize("framing", Framing)
async def test_half_closed(shared: Bench, framing: Framing, place: str) -> None:
    """The end of the provider's side is its end: it is not waited for."""

    async def check(number: int, call: Call) -> None:
        head, body = raw_answer(call, framing)
        length, last = len(head), len(head) + len(body)
        places = {
            "nothing": 0,
            "half a header": length // 2,
            "a header": length,
            "half": length + len(body) // 2,
            "all": last,
        }
        part = (head + body)[: places[place]]
        async with asyncio.timeout(10):
            answer = await shared.ask(call, f"h{number}", half_closes(part))
        assert shared.counts[f"h{number}"] == 1
        if place == "all" or (
            framing is Framing.CLOSE and not call.operation and len(part) >= length
        ):
            assert answer.code == OK, call.name
        elif framing is Framing.CLOSE and len(part) >= length:
            assert (answer.code, answer.outcome) == ("invalid_provider_result", "unknown")
        elif call.streamed and not call.operation and len(part) >= length:
            assert (answer.status, answer.code) == (200, BROKEN)
        else:
            assert (answer.code, answer.outcome) == ("transport_lost", "unknown"), call.name

    await asyncio.gather(*(check(number, call) for number, call in enumerate(CALLS)))
    await shared.works(*CALLS)
    await shared.operations()


OPERATIONS = [call for call in CALLS if call.operation]


@pytest.mark.parametrize("call", OPERATIONS, ids=lambda call: call.name)
async def test_two_calls_at_once_with_one_request_id_are_two_calls(
    shared: Bench, call: Call
) -> None:
    """Both are at the provider at the same time, and nothing there tells whose they are."""
    both = asyncio.Barrier(2)

    async def script(talk: Conversation) -> None:
        async with asyncio.timeout(5):
            await both.wait()
        await sends(b"".join(raw_answer(call, Framing.LENGTH)))(talk)

    shared.scripts["twice"], shared.counts["twice"] = script, 0
    shared.upstream.seen.clear()
    body = call.body("twice")
    answers = await asyncio.gather(*(told(shared.running, call, body) for _ in range(2)))
    assert {answer.code for answer in answers} == {OK}
    assert shared.counts["twice"] == 2
    one, other = shared.upstream.seen
    assert one == other
    for private in ("who-asked", "request_id", "idempotency", "capability", "contract_version"):
        assert private not in (json.dumps(one.headers) + one.path + one.body.decode()).lower()
