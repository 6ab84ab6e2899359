"""A caller that leaves: within a second the provider's socket is closed and the permit is back."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest

from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, chat_operation
from support.upstream import Conversation, ScriptedUpstream, chat, say_hello

pytestmark = SHARED_LOOP

ROUTES = ["/v1/model-operations", "/v1/chat/completions"]


def call(route: str, streamed: bool) -> dict[str, object]:
    if route == "/v1/model-operations":
        return chat_operation(stream=streamed)
    return {"model": "llm", "messages": [], "stream": streamed}


@asynccontextmanager
async def within_a_second() -> AsyncIterator[None]:
    async with asyncio.timeout(1):
        yield


def sockets_to(port: int) -> int:
    """Sockets that this process has open to a port, those among them that are being closed."""
    connections = psutil.Process().net_connections("tcp")
    return sum(bool(c.raddr) and c.raddr.port == port for c in connections)


@pytest.mark.parametrize("streamed", [False, True], ids=["finite", "streamed"])
@pytest.mark.parametrize("route", ROUTES)
async def test_case_67_while_the_provider_is_silent(
    router: RunningRouter, upstream: ScriptedUpstream, route: str, streamed: bool
) -> None:
    left = asyncio.Event()

    async def silent(talk: Conversation) -> None:
        await talk.caller_left()
        left.set()

    upstream.script = silent
    async with router.raw(route, call(route, streamed)):
        await eventually(lambda: len(upstream.seen) == 1, "the provider has the request")
        assert router.router.admission.in_flight == 1
    async with within_a_second():
        await left.wait()
        await router.idle()
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("route", ROUTES)
async def test_in_the_middle_of_a_stream(
    router: RunningRouter, upstream: ScriptedUpstream, route: str
) -> None:
    left = asyncio.Event()

    async def first_only(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("first"))
        await talk.caller_left()
        left.set()

    upstream.script = first_only
    async with router.raw(route, call(route, True)) as (reader, _):
        await asyncio.wait_for(reader.readuntil(b"first"), 5)
    async with within_a_second():
        await left.wait()
        await router.idle()
    assert len(upstream.seen) == 1


async def test_leaving_politely_counts_too(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    left = asyncio.Event()

    async def silent(talk: Conversation) -> None:
        await talk.caller_left()
        left.set()

    upstream.script = silent
    async with router.raw(ROUTES[0], call(ROUTES[0], False)) as (_, writer):
        await eventually(lambda: len(upstream.seen) == 1, "the provider has the request")
        writer.close()
        async with within_a_second():
            await left.wait()
            await router.idle()


@pytest.mark.parametrize("route", ROUTES)
async def test_a_caller_that_does_not_read_holds_the_provider_back(
    router: RunningRouter, upstream: ScriptedUpstream, route: str
) -> None:
    """Back-pressure: no memory grows, transport and permit stay; when the caller goes, they go."""
    sent = 0
    left = asyncio.Event()
    piece = chat("x" * 4000)

    async def endless(talk: Conversation) -> None:
        nonlocal sent
        talk.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        talk.keep = False
        await talk.head()
        try:
            while True:
                await talk.chunk(piece)
                sent += len(piece)
        except ConnectionError:
            left.set()

    upstream.script = endless
    async with router.raw(route, call(route, True)) as (reader, writer):
        # A reader of 64 MiB is what the test client has: take its socket away from it.
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        settled = -1
        for _ in range(200):
            await eventually(lambda: sent > 0, "the stream began")
            if sent == settled:
                break
            settled = sent
            await asyncio.wait({asyncio.create_task(left.wait())}, timeout=0.05)
        assert sent == settled, "the provider was never held back"
        assert sent < 12_000_000
        assert not left.is_set()
        assert router.router.admission.in_flight == 1
        assert reader is not None
    async with within_a_second():
        await left.wait()
        await router.idle()
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("route", ROUTES)
async def test_while_a_provider_does_not_read_the_request(
    router: RunningRouter, upstream: ScriptedUpstream, route: str
) -> None:
    """Megabytes are still to be written to it: the connection is cut, not flushed first."""
    size = 30_000_000
    message = {"role": "user", "content": "x" * size}
    body: dict[str, object] = {"model": "llm", "messages": [message]}
    if route == ROUTES[0]:
        body = chat_operation(input={"kind": "messages", "messages": [message]})
    look, received = asyncio.Event(), 0

    async def deaf(talk: Conversation) -> None:
        nonlocal received
        talk.keep = False
        talk.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await look.wait()
        talk.writer.transport.resume_reading()  # type: ignore[attr-defined]
        try:
            while piece := await talk.reader.read(1 << 20):
                received += len(piece)
        except ConnectionError:
            return

    upstream.script, upstream.reads_bodies = deaf, False
    try:
        async with router.raw(route, body):
            await eventually(lambda: len(upstream.seen) == 1, "the provider has the request")
            pool = router.router.upstream.pool
            (wire,) = pool._all
            await eventually(lambda: wire.writing_paused, "the connection takes no more")
            held = sockets_to(upstream.port)
        async with within_a_second():
            await router.idle()
        await eventually(lambda: sockets_to(upstream.port) < held, "it is closed", 1)
        look.set()
        await eventually(lambda: upstream.open_connections <= 1, "the provider saw the end")
        assert received < size
    finally:
        look.set()
        upstream.reads_bodies = True


async def test_while_the_body_is_still_coming(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async with router.raw(ROUTES[0], b'{"contract', announced=1000):
        await eventually(lambda: len(router.router.sessions) == 1, "a session is open")
    await router.idle()
    assert upstream.seen == []


async def test_a_caller_that_left_does_not_harm_the_next(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    """The connection of an answer that nobody read to its end is never used again."""

    async def slow(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("first"))
        await talk.caller_left()

    for _ in range(3):
        upstream.script = slow
        async with router.raw(ROUTES[0], call(ROUTES[0], True)) as (reader, _):
            await asyncio.wait_for(reader.readuntil(b"first"), 5)
        upstream.script = say_hello
        status, body = await router.operate(chat_operation())
        assert (status, body["result"]["text"]) == (200, "hello")


@pytest.mark.parametrize("together", [True, False], ids=["one segment", "later"])
async def test_a_pipelined_request_does_not_hide_that_the_caller_left(
    router: RunningRouter, upstream: ScriptedUpstream, together: bool
) -> None:
    left = asyncio.Event()

    async def silent(talk: Conversation) -> None:
        await talk.caller_left()
        left.set()

    upstream.script = silent
    async with asyncio.timeout(5):
        _, writer = await asyncio.open_connection("127.0.0.1", router.port)
        one = request(call(ROUTES[0], True))
        writer.write(one * 2 if together else one)
        await eventually(lambda: len(upstream.seen) == 1, "the provider has the request")
        if not together:
            writer.write(one)
            await writer.drain()
        writer.transport.abort()
    async with within_a_second():
        await left.wait()
        await router.idle()
    assert len(upstream.seen) == 1


async def test_a_pipelined_request_is_not_read_and_the_connection_closes(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    go = asyncio.Event()

    async def waits(talk: Conversation) -> None:
        await go.wait()
        await say_hello(talk)

    upstream.script = waits
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
        writer.write(request(chat_operation(request_id="first")) * 3)
        await eventually(lambda: len(upstream.seen) == 1, "the provider has the request")
        go.set()
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in answer
    assert answer.count(b"HTTP/1.1") == 1
    assert len(upstream.seen) == 1
    assert b"hi" in upstream.seen[0].body


def request(body: object) -> bytes:
    raw = json.dumps(body).encode()
    head = f"POST {ROUTES[0]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(raw)}\r\n\r\n"
    return head.encode() + raw
