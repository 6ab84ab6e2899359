"""A pod's supervisor is asked over HTTP: a whole answer is told, and whatever else is none."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web

from pumas_crds.facts import PodDescriptor, PodState
from pumas_operator import describing
from pumas_operator.describing import HttpSupervisors
from support.eventually import eventually
from support.loopback import (
    Handler,
    Loopback,
    answering,
    cut,
    cut_after,
    hang,
    hang_after,
    redirect,
    say,
    speak,
)

GOOD = b'{"state": "ready", "boot_id": "b1", "busy": 2}'
LIMIT = 1_048_576
#: Far longer than any test: where it is not shorter, something else must end the wait.
FOR_EVER = 3600.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """For how long a supervisor is asked."""

    def wait(seconds: float) -> None:
        monkeypatch.setattr(describing, "ASK_SECONDS", seconds)

    wait(FOR_EVER)
    return wait


@asynccontextmanager
async def supervising(handler: Handler) -> AsyncIterator[Loopback]:
    """A supervisor that answers so."""
    async with answering(handler) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(describing, "SUPERVISOR_PORT", server.port)
            yield server


async def describe(address: str = "127.0.0.1") -> PodDescriptor | None:
    async with asyncio.timeout(20), aiohttp.ClientSession(trust_env=False) as session:
        return await HttpSupervisors(session).describe(address)


async def test_the_whole_answer_is_read() -> None:
    async with supervising(say(GOOD)) as server:
        assert await describe() == PodDescriptor(state=PodState.READY, boot_id="b1", busy=2)
    assert [(request.method, request.path) for request in server.asked] == [("GET", "/descriptor")]


async def test_an_answer_may_come_in_pieces_and_fill_the_limit() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (GOOD[:9], GOOD[9:], b" " * (LIMIT - len(GOOD))):
            await response.write(piece)
        return response

    async with supervising(answer):
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
async def test_an_answer_that_is_not_as_it_should_be_is_none(body: bytes, status: int) -> None:
    async with supervising(say(body, status)) as server:
        assert await describe() is None
    assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"not compressed", zlib.compress(GOOD + b" " * LIMIT)])
async def test_neither_is_one_that_does_not_unpack_to_a_short_one(body: bytes) -> None:
    async with supervising(say(body, encoding="deflate")):
        assert await describe() is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_nobody_is_sent_elsewhere(status: int) -> None:
    async with supervising(redirect(status, GOOD)) as server:
        assert await describe() is None
    assert [request.path for request in server.asked] == ["/descriptor"]


async def test_an_answer_without_end_is_left() -> None:
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

    async with supervising(answer):
        assert await describe() is None
        await eventually(lambda: left, "the connection is closed")


async def trickle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.005)
    return response


@pytest.mark.parametrize("handler", [hang, hang_after(GOOD), trickle])
async def test_a_supervisor_that_takes_its_time_is_not_waited_for(
    handler: Handler, patience: Callable[[float], None]
) -> None:
    patience(0.1)
    async with supervising(handler):
        assert await describe() is None


@pytest.mark.parametrize("handler", [cut, cut_after(GOOD), speak(b"SSH-2.0-x\r\n")])
async def test_a_connection_that_breaks_is_none(handler: Handler) -> None:
    async with supervising(handler):
        assert await describe() is None


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
