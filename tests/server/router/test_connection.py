"""A caller's connection: what it may take its time for, how long its parts may be, how it is told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest

from pumas_server.router import connection
from pumas_server.router.app import Router
from pumas_server.router.header_bounds import MAX_HEADER_BYTES, MAX_TARGET_BYTES
from pumas_server.router.refusals import Reason
from pumas_server.router.settings import RouterSettings
from support.eventually import eventually
from support.raw_caller import RawAnswer, RawCaller, calling, post
from support.routers import TEST_SETTINGS, RunningRouter, chat_operation, external, running_router
from support.upstream import Conversation, ScriptedUpstream, chat, say_hello

OPERATIONS = "/v1/model-operations"
CHAT = "/v1/chat/completions"

#: Long enough for whole requests on a busy machine, short enough to be waited for.
QUICK = replace(
    TEST_SETTINGS, header_seconds=0.3, body_seconds=0.3, idle_seconds=0.3, linger_seconds=0.3
)
PATIENT = replace(TEST_SETTINGS, max_connections=3)
OPERATION = json.dumps(chat_operation()).encode()


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream().serving() as scripted:
        yield scripted


@pytest.fixture
async def quick(upstream: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    async with running(upstream, QUICK) as router:
        yield router


@pytest.fixture
async def patient(upstream: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    async with running(upstream, PATIENT) as router:
        yield router


def running(
    upstream: ScriptedUpstream, settings: RouterSettings
) -> AbstractAsyncContextManager[RunningRouter]:
    return running_router(external(upstream.url), settings=settings)


def counted(router: Router) -> dict[Reason, int]:
    """What was refused."""
    return {reason: count for reason, count in router.refusals.counts.items() if count}


async def gone(running: RunningRouter) -> None:
    """No connection is left, no timer holds one, nothing is borrowed."""
    # The client's own may stay open.
    await running.client.close()
    await eventually(lambda: running.router.connections.open == 0, "all connections are closed")
    assert running.router.connections.beyond == 0
    await running.idle()


def assert_refused(answer: RawAnswer, status: int, code: str) -> None:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-pumas-outcome"] == "not_admitted"
    assert answer.headers["connection"] == "close"
    assert answer.json["error"]["code"] == code
    kind = "invalid_request_error" if status < 500 else "server_error"
    assert answer.json["error"]["type"] == kind


@pytest.mark.parametrize(
    "begun",
    [
        b"P",
        b"POST " + OPERATIONS.encode(),
        b"POST / HTTP/1.1\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nx: y",
        b"\r\n\r\nG",
    ],
)
async def test_a_header_that_does_not_end(quick: RunningRouter, begun: bytes) -> None:
    async with calling(quick.port) as caller:
        await caller.send(begun)
        answer = await caller.answer()
        assert_refused(answer, 408, "invalid_request")
        assert "within 0.3 s" in answer.json["error"]["message"]
        assert await caller.closed() == b""
    assert counted(quick.router) == {Reason.HEADER_TIMEOUT: 1}
    await gone(quick)


async def test_drops_do_not_prolong_a_header(quick: RunningRouter) -> None:
    """A byte now and then is no progress: what counts is when it began."""
    async with calling(quick.port) as caller:

        async def drip() -> None:
            caller.writer.write(b"GET / HTTP/1.1\r\nx: ")
            while True:
                caller.writer.write(b"y")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert_refused(await caller.answer(5), 408, "invalid_request")
        dripping.cancel()
    await gone(quick)


async def test_each_request_of_a_connection_has_its_own_time(quick: RunningRouter) -> None:
    async with calling(quick.port) as caller:
        for _ in range(3):
            await caller.send(b"GET /healthz HTTP/1.1\r\nho")
            await caller.send(b"st: x\r\n\r\n")
            assert (await caller.answer()).status == 200
        await caller.send(b"GET /healthz HT")
        assert_refused(await caller.answer(), 408, "invalid_request")
    await gone(quick)


@pytest.mark.parametrize("said", [b"", b"\r\n", b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"])
async def test_an_idle_connection_is_closed_without_a_word(
    quick: RunningRouter, said: bytes
) -> None:
    async with calling(quick.port) as caller:
        await caller.send(said)
        if said.startswith(b"GET"):
            assert (await caller.answer()).status == 200
        assert await caller.closed() == b""
    assert counted(quick.router) == {}
    await gone(quick)


async def test_blank_lines_are_no_request_and_do_not_hold_a_connection(
    quick: RunningRouter,
) -> None:
    async with calling(quick.port) as caller:

        async def drip() -> None:
            while True:
                caller.writer.write(b"\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await caller.closed(5) == b""
        dripping.cancel()
    await gone(quick)


@pytest.mark.parametrize("path", [OPERATIONS, CHAT])
async def test_a_body_that_stops_coming(
    quick: RunningRouter, upstream: ScriptedUpstream, path: str
) -> None:
    async with calling(quick.port) as caller:
        await caller.send(post(path, OPERATION[:10], announced=1000))
        await eventually(lambda: quick.router.budget.held == 10, "what came is held")
        answer = await caller.answer()
        assert answer.status == 400
        assert answer.json["error"]["code"] == "invalid_request"
        assert "too slowly" in answer.json["error"]["message"]
        assert answer.headers["x-pumas-outcome"] == "not_admitted"
        assert answer.headers["connection"] == "close"
        assert await caller.closed() == b""
    assert counted(quick.router) == {Reason.BODY_TIMEOUT: 1}
    assert upstream.seen == []
    await gone(quick)


@pytest.mark.parametrize("path", [OPERATIONS, CHAT])
async def test_a_body_of_which_nothing_comes(quick: RunningRouter, path: str) -> None:
    async with calling(quick.port) as caller:
        await caller.send(post(path, b"", announced=1000))
        assert (await caller.answer()).status == 400
    assert counted(quick.router) == {Reason.BODY_TIMEOUT: 1}
    await gone(quick)


async def test_a_body_in_drops(quick: RunningRouter) -> None:
    """Never silent for long, and never done."""
    async with calling(quick.port) as caller:
        await caller.send(post(OPERATIONS, b"", announced=1000))

        async def drip() -> None:
            while True:
                caller.writer.write(b" ")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert (await caller.answer(5)).status == 400
        dripping.cancel()
    await gone(quick)


async def test_a_slow_body_that_keeps_its_pace(upstream: ScriptedUpstream) -> None:
    """Longer than the pause that is allowed, in all, and faster than the rate."""
    settings = replace(QUICK, body_seconds=0.4, body_rate=20)
    async with running(upstream, settings) as router, calling(router.port) as caller:
        size = len(OPERATION)
        await caller.send(post(OPERATIONS, b"", announced=size))
        for start in range(0, size, size // 8):
            await asyncio.sleep(0.1)
            await caller.send(OPERATION[start : start + size // 8])
        assert (await caller.answer()).status == 200
        assert counted(router.router) == {}


@pytest.mark.parametrize("path", [OPERATIONS, CHAT])
async def test_a_body_whose_framing_breaks(patient: RunningRouter, path: str) -> None:
    async with calling(patient.port) as caller:
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        await caller.send(head + b"2\r\n{}\r\nzz\r\n")
        answer = await caller.answer()
        assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
        assert "framing" in answer.json["error"]["message"]
        assert await caller.closed() == b""
    assert counted(patient.router) == {Reason.BAD_HTTP: 1}
    await gone(patient)


NOT_HTTP: dict[str, bytes] = {
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no method": b"lorem ipsum dolor\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    "no length": b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
    "a target beyond ASCII": b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
    "a name with a blank": b"GET / HTTP/1.1\r\nx y: z\r\n\r\n",
}


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_what_is_not_http(
    patient: RunningRouter, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with calling(patient.port) as caller:
        await caller.send(NOT_HTTP[name])
        assert_refused(await caller.answer(), 400, "invalid_request")
        assert await caller.closed() == b""
    assert counted(patient.router) == {Reason.BAD_HTTP: 1}
    # A flood of them would be a flood of lines.
    assert not caplog.records
    await gone(patient)


@pytest.mark.parametrize("pieces", [1, 10])
async def test_a_header_that_is_too_long(patient: RunningRouter, pieces: int) -> None:
    field = b"x: " + b"y" * MAX_HEADER_BYTES
    whole = b"POST / HTTP/1.1\r\n" + field + b"\r\n\r\n"
    async with calling(patient.port) as caller:
        await send_in(caller, whole, pieces)
        assert_refused(await caller.answer(), 431, "request_limit")
    async with calling(patient.port) as caller:
        await send_in(caller, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 11_000 + b"\r\n", pieces)
        assert_refused(await caller.answer(), 431, "request_limit")
    assert counted(patient.router) == {Reason.HEADER_SIZE: 2}
    await gone(patient)


async def test_a_long_body_is_no_long_header(patient: RunningRouter) -> None:
    body = OPERATION + b" " * 200_000
    async with calling(patient.port) as caller:
        for _ in range(2):
            await caller.send(post(OPERATIONS, body))
            assert (await caller.answer()).status == 200
        long = b"x: " + b"y" * (MAX_HEADER_BYTES - 200) + b"\r\n"
        await caller.send(post(OPERATIONS, body).replace(b"host: x\r\n", long))
        assert (await caller.answer()).status == 200
    assert counted(patient.router) == {}


@pytest.mark.parametrize("pieces", [1, 7])
async def test_a_target_that_is_too_long(patient: RunningRouter, pieces: int) -> None:
    for length, status in ((MAX_TARGET_BYTES, 404), (MAX_TARGET_BYTES + 1, 414)):
        target = b"/" + b"a" * (length - 1)
        async with calling(patient.port) as caller:
            await send_in(caller, b"GET " + target + b" HTTP/1.1\r\nhost: x\r\n\r\n", pieces)
            answer = await caller.answer()
            assert answer.status == status
    assert_refused(answer, 414, "request_limit")
    assert counted(patient.router) == {Reason.TARGET_SIZE: 1}
    await gone(patient)


async def test_under_lmsp_it_is_a_problem(patient: RunningRouter) -> None:
    async with calling(patient.port) as caller:
        await caller.send(b"GET /lmsp/v1/models?" + b"a" * 9000 + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        answer = await caller.answer()
    assert answer.status == 414
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-pumas-outcome"] == "not_admitted"
    assert answer.json["status"] == 414
    assert answer.json["code"] == "invalid_request"
    assert answer.json["instance"] == "urn:uuid:" + answer.headers["x-request-id"]


async def test_one_connection_more_than_may_be(patient: RunningRouter) -> None:
    await patient.client.close()
    await eventually(lambda: patient.router.connections.open == 0, "the client's own is closed")
    async with calling(patient.port), calling(patient.port), calling(patient.port) as third:
        await third.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await third.answer()).status == 200
        for _ in range(3):
            async with calling(patient.port) as more:
                await more.send(post(OPERATIONS, OPERATION))
                answer = await more.answer()
                assert_refused(answer, 503, "capability_unavailable")
                assert answer.headers["retry-after"] == "1"
                assert "all 3 connections" in answer.json["error"]["message"]
        # Those that are in are served.
        await third.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await third.answer()).status == 200
    await eventually(lambda: patient.router.connections.open == 0, "all are closed")
    async with calling(patient.port) as later:
        await later.send(post(OPERATIONS, OPERATION))
        assert (await later.answer()).status == 200
    assert counted(patient.router) == {Reason.CONNECTIONS: 3}
    await gone(patient)


async def test_a_caller_that_goes_on_sending_after_its_answer_is_cut(quick: RunningRouter) -> None:
    """It was answered before its body came, and sends on for as long as it is let."""
    async with calling(quick.port) as caller:
        await caller.send(post(OPERATIONS, b"", announced=40_000_000))
        answer = await caller.answer()
        assert (answer.status, answer.json["error"]["code"]) == (413, "request_limit")

        async def drip() -> None:
            while True:
                caller.writer.write(b" ")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await caller.closed(5) == b""
        dripping.cancel()
    await gone(quick)


async def test_a_body_that_ends_after_its_answer_leaves_the_connection(
    patient: RunningRouter,
) -> None:
    size = 33_554_433
    async with calling(patient.port) as caller:
        await caller.send(post(OPERATIONS, b"", announced=size))
        assert (await caller.answer()).status == 413
        await caller.send(b" " * size)
        await caller.send(post(OPERATIONS, OPERATION))
        assert (await caller.answer()).status == 200
    await gone(patient)


@pytest.mark.parametrize("junk", [b"\x00\x01\x02 junk\r\n\r\n", b"\r\n", b"GET / HT", OPERATION])
async def test_junk_behind_a_request_leaves_its_answer_alone(
    quick: RunningRouter, upstream: ScriptedUpstream, junk: bytes
) -> None:
    go = asyncio.Event()

    async def waits(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("first"))
        await go.wait()
        await talk.chunk(chat("second", "stop"))
        await talk.chunk(b"data: [DONE]\n\n")
        await talk.end()

    upstream.script = waits
    body = json.dumps(chat_operation(stream=True)).encode()
    async with calling(quick.port) as caller:
        await caller.send(post(OPERATIONS, body))
        await asyncio.wait_for(caller.reader.readuntil(b"first"), 5)
        await caller.send(junk)
        # Longer than a header may take: the answer has no deadline.
        await asyncio.sleep(QUICK.header_seconds + 0.1)
        go.set()
        rest = await caller.closed()
    assert b"second" in rest
    assert b"event: completed" in rest
    assert rest.endswith(b"0\r\n\r\n")
    assert b"HTTP/1.1" not in rest
    assert counted(quick.router) == {}
    await gone(quick)


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
async def test_an_upgrade_is_not_offered_and_the_request_is_answered(
    patient: RunningRouter, protocol: bytes
) -> None:
    """The parser takes what follows for the other protocol: of a body nothing is read."""
    asked = b"host: x\r\nconnection: upgrade\r\nupgrade: " + protocol + b"\r\n"
    for request, status in (
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", 200),
        (post(OPERATIONS, OPERATION), 400),
    ):
        async with calling(patient.port) as caller:
            await caller.send(request.replace(b"host: x\r\n", asked))
            answer = await caller.answer()
            assert answer.status == status
            assert answer.headers["connection"] == "close"
            assert await caller.closed() == b""
    await gone(patient)


async def send_in(caller: RawCaller, data: bytes, pieces: int) -> None:
    """In so many segments, as far as the loop keeps them apart."""
    step = len(data) // pieces + 1
    for start in range(0, len(data), step):
        await caller.send(data[start : start + step])
        if pieces > 1:
            await asyncio.sleep(0)


async def test_whole_requests_make_no_timer(
    patient: RunningRouter, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.script = say_hello
    async with calling(patient.port) as caller:
        await caller.send(post(OPERATIONS, OPERATION))
        await caller.answer()
        made: list[object] = []
        loop = asyncio.get_running_loop()
        later = loop.call_at

        def noted(when: float, callback: object, *args: object, **more: object) -> object:
            timers = ("CallerConnection.", "Deadline.", "BodyWatch.")
            if getattr(callback, "__qualname__", "").startswith(timers):
                made.append(callback)
            return later(when, callback, *args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_at", noted)
        await caller.send(post(OPERATIONS, OPERATION))
        await caller.answer()
        assert made == []


async def test_a_caller_of_bad_requests_is_read_from_a_little_later(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told at once; its next request is read after a pause, anybody else's without one."""
    monkeypatch.setattr(connection, "_UNWANTED_SECONDS", 0.5)
    async with (
        running_router(external(upstream.url)) as running,
        calling(running.port) as bad,
        calling(running.port) as good,
    ):
        began = time.monotonic()
        await bad.send(post(OPERATIONS, b"{"))
        assert (await bad.answer(5)).status == 400
        assert time.monotonic() - began < 0.4
        await bad.send(post(OPERATIONS, OPERATION))
        for _ in range(3):
            await good.send(post(OPERATIONS, OPERATION))
            assert (await good.answer(5)).status == 200
        assert (await bad.answer(5)).status == 200
        assert time.monotonic() - began > 0.5
