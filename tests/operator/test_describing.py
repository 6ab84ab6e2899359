"""A pod's supervisor is asked over HTTP: a whole answer is told, and whatever else is none."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web

from pumas_crds.facts import PodDescriptor, PodState
from pumas_operator import describing
from pumas_operator.describing import HttpSupervisors
from support.eventually import eventually

GOOD = b'{"state": "ready", "boot_id": "b1", "busy": 2}'
LIMIT = 1_048_576
#: Far longer than any test: where it is not shorter, something else must end the wait.
FOR_EVER = 3600.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """For how long a supervisor is asked."""

    def wait(seconds: float) -> None:
        monkeypatch.setattr(describing, "ASK_SECONDS", seconds)

    wait(FOR_EVER)
    return wait


@asynccontextmanager
async def answering(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[web.Request]]:
    """A supervisor on the loopback, and what was asked of it."""
    asked: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request)
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setattr(describing, "SUPERVISOR_PORT", runner.addresses[0][1])
    try:
        yield asked
    finally:
        await runner.cleanup()


async def describe(address: str = "127.0.0.1") -> PodDescriptor | None:
    async with asyncio.timeout(20), aiohttp.ClientSession(trust_env=False) as session:
        return await HttpSupervisors(session).describe(address)


def say(body: bytes, status: int = 200, encoding: str = "identity") -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers={"Content-Encoding": encoding})

    return answer


async def test_the_whole_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(say(GOOD), monkeypatch) as asked:
        assert await describe() == PodDescriptor(state=PodState.READY, boot_id="b1", busy=2)
    assert [(request.method, request.path) for request in asked] == [("GET", "/descriptor")]


async def test_an_answer_may_come_in_pieces_and_fill_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (GOOD[:9], GOOD[9:], b" " * (LIMIT - len(GOOD))):
            await response.write(piece)
        return response

    async with answering(answer, monkeypatch):
        assert await describe() is not None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (GOOD, 503),
        (GOOD, 404),
        (GOOD, 201),
        (b"", 200),
        (b"<!doctype html>", 200),
        (b"[]", 200),
        (b'{"busy": 0}', 200),
        (b'{"state": "asleep"}', 200),
        (b'{"state": "ready", "busy": -1}', 200),
        (b'{"state": "ready", "boot_id": "\xff"}', 200),
        (GOOD[:-1], 200),
        (b"[" * 100_000, 200),
        (GOOD + b" " * (LIMIT - len(GOOD) + 1), 200),
    ],
)
async def test_an_answer_that_is_not_as_it_should_be_is_none(
    body: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering(say(body, status), monkeypatch) as asked:
        assert await describe() is None
    assert len(asked) == 1


@pytest.mark.parametrize("body", [b"not compressed", zlib.compress(GOOD + b" " * LIMIT)])
async def test_neither_is_one_that_does_not_unpack_to_a_short_one(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with answering(say(body, encoding="deflate"), monkeypatch):
        assert await describe() is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_nobody_is_sent_elsewhere(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/elsewhere":
            return web.Response(body=GOOD)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async with answering(answer, monkeypatch) as asked:
        assert await describe() is None
    assert [request.path for request in asked] == ["/descriptor"]


async def test_an_answer_without_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b" " * 65_536)
        except ConnectionError:
            left.append(True)
            raise

    async with answering(answer, monkeypatch):
        assert await describe() is None
        await eventually(lambda: left, "the connection is closed")


@pytest.mark.parametrize("way", ["silent", "silent after the head", "a byte at a time"])
async def test_a_supervisor_that_takes_its_time_is_not_waited_for(
    way: str, monkeypatch: pytest.MonkeyPatch, patience: Callable[[float], None]
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if way == "silent":
            await asyncio.Event().wait()
        await response.prepare(request)
        if way == "silent after the head":
            await asyncio.Event().wait()
        with suppress(ConnectionError):
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.005)
        return response

    patience(0.1)
    async with answering(answer, monkeypatch) as asked:
        assert await describe() is None
    assert len(asked) == 1


async def test_a_connection_that_breaks_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(GOOD) + 1)})
        await response.prepare(request)
        await response.write(GOOD)
        assert request.transport is not None
        request.transport.abort()
        return response

    async with answering(answer, monkeypatch) as asked:
        assert await describe() is None
    assert len(asked) == 1


async def test_nobody_listening_is_none(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setattr(describing, "SUPERVISOR_PORT", unused_tcp_port)
    assert await describe() is None


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("192.0.2.1", "http://192.0.2.1:8081/descriptor"),
        ("fd00::1", "http://[fd00::1]:8081/descriptor"),
    ],
)
async def test_where_a_pod_is_asked(address: str, url: str) -> None:
    asked = []

    async def start(
        session: aiohttp.ClientSession,
        context: SimpleNamespace,
        params: aiohttp.TraceRequestStartParams,
    ) -> None:
        asked.append(str(params.url))
        raise aiohttp.ClientConnectionError("nothing leaves this machine")

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(start)
    async with aiohttp.ClientSession(trace_configs=[trace]) as session:
        assert await HttpSupervisors(session).describe(address) is None
    assert asked == [url]
