"""Stopping one model and stopping the router: who is told what, and how soon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from pumas_server.router.settings import RouterSettings
from support.eventually import eventually
from support.routers import RunningRouter, chat_operation, external, records, running_router
from support.upstream import Conversation, ScriptedUpstream, chat, say_hello


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream().serving() as scripted:
        yield scripted


@asynccontextmanager
async def at_once() -> AsyncIterator[None]:
    async with asyncio.timeout(1):
        yield


def stop_model(running: RunningRouter) -> None:
    running.router.sessions.stop("llm@default")


def shut_down(running: RunningRouter) -> None:
    running.router.shutdown()


def remove_model(running: RunningRouter) -> None:
    running.source.put()


EVENTS = [stop_model, shut_down, remove_model]


@pytest.mark.parametrize("event", EVENTS)
async def test_waiting_for_a_header_ends_at_once(upstream: ScriptedUpstream, event) -> None:  # type: ignore[no-untyped-def]
    left = asyncio.Event()

    async def silent(talk: Conversation) -> None:
        await talk.caller_left()
        left.set()

    upstream.script = silent
    async with running_router(external(upstream.url)) as running:
        calls = [
            asyncio.create_task(running.post("/v1/model-operations", chat_operation(stream=s)))
            for s in (False, True)
        ]
        calls += [
            asyncio.create_task(running.post("/v1/chat/completions", {"model": "llm", "stream": s}))
            for s in (False, True)
        ]
        await eventually(lambda: len(upstream.seen) == 4, "four calls wait")
        event(running)
        async with at_once():
            answers = await asyncio.gather(*calls)
            await left.wait()
        for status, headers, raw in answers:
            assert (status, json.loads(raw)["error"]["code"]) == (502, "transport_lost")
            assert headers["x-pumas-outcome"] == "unknown"
            assert headers["x-should-retry"] == "false"
        await running.idle()
        assert len(upstream.seen) == 4


@pytest.mark.parametrize("event", EVENTS)
async def test_finite_buffering_ends_at_once(upstream: ScriptedUpstream, event) -> None:  # type: ignore[no-untyped-def]
    async def half(talk: Conversation) -> None:
        if talk.request.json["stream"]:
            await talk.head()
            await talk.chunk(chat("half"))
        else:
            await talk.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        await talk.caller_left()

    upstream.script = half
    async with running_router(external(upstream.url)) as running:
        calls = [
            asyncio.create_task(running.post("/v1/model-operations", chat_operation())),
            asyncio.create_task(
                running.post("/v1/chat/completions", {"model": "llm", "stream": False})
            ),
        ]
        await eventually(lambda: len(upstream.seen) == 2, "both are answered by half")
        event(running)
        async with at_once():
            answers = await asyncio.gather(*calls)
        for status, headers, raw in answers:
            assert (status, json.loads(raw)["error"]["code"]) == (502, "transport_lost")
            assert headers["x-pumas-outcome"] == "unknown"
        await running.idle()


@pytest.mark.parametrize("event", EVENTS)
async def test_a_stream_ends_with_one_failed_record(upstream: ScriptedUpstream, event) -> None:  # type: ignore[no-untyped-def]
    left = asyncio.Event()

    async def first_only(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("first"))
        await talk.caller_left()
        left.set()

    upstream.script = first_only
    async with (
        running_router(external(upstream.url)) as running,
        at_once(),
        running.client.post("/v1/model-operations", json=chat_operation(stream=True)) as answer,
    ):
        got = b""
        while b"first" not in got:
            got += await answer.content.readany()
        event(running)
        got += await answer.content.read()
        await left.wait()
        told = records(got)
        assert [kind for kind, _ in told] == ["started", "delta", "failed"]
        error = told[-1][1]["error"]
        assert (error["code"], error["outcome"]) == ("transport_lost", "unknown")
        await running.idle()


async def test_no_buffered_delta_follows_a_stop(upstream: ScriptedUpstream) -> None:
    """Deltas that came before the stop and were not polled yet are not delivered after it."""

    async def endless(talk: Conversation) -> None:
        await talk.head()
        talk.keep = False
        try:
            while True:
                await talk.chunk(chat("x" * 1000))
        except ConnectionError:
            return

    upstream.script = endless
    async with running_router(external(upstream.url)) as running:
        body = chat_operation(stream=True)
        async with running.raw("/v1/model-operations", body) as (reader, writer):
            await asyncio.wait_for(reader.readuntil(b"delta"), 5)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            session = next(iter(running.router.sessions._live))
            stop_model(running)
            assert session.ended is not None
            # A body whose caller does not read keeps transport and permit until its next poll.
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            async with asyncio.timeout(5):
                rest = await reader.readuntil(b"event: failed")
                rest += await reader.readuntil(b"0\r\n\r\n")
            assert rest.count(b"event: failed") == 1
            assert b"event: delta" not in rest[rest.index(b"event: failed") :]
            assert b"transport_lost" in rest
        await running.idle()


async def test_an_openai_stream_breaks(upstream: ScriptedUpstream) -> None:
    async def first_only(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("first"))
        await talk.caller_left()

    upstream.script = first_only
    async with (
        running_router(external(upstream.url)) as running,
        at_once(),
        running.client.post(
            "/v1/chat/completions", json={"model": "llm", "stream": True}
        ) as answer,
    ):
        await answer.content.readany()
        stop_model(running)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()
        await running.idle()


async def test_another_model_goes_on(upstream: ScriptedUpstream) -> None:
    go = asyncio.Event()

    async def waits(talk: Conversation) -> None:
        await go.wait()
        await say_hello(talk)

    upstream.script = waits
    models = [external(upstream.url), external(upstream.url, "other")]
    async with running_router(*models) as running:
        call = asyncio.create_task(running.operate(chat_operation(model="other")))
        await eventually(lambda: len(upstream.seen) == 1, "it waits")
        stop_model(running)
        running.source.put(models[1])
        await running.until(lambda c: len(c.rows) == 1)
        go.set()
        assert (await call)[0] == 200
        assert (await running.operate(chat_operation()))[0] == 404
        await running.idle()


async def test_after_a_shutdown_nothing_is_admitted(upstream: ScriptedUpstream) -> None:
    async with running_router(external(upstream.url)) as running:
        running.router.shutdown()
        for path, body in (
            ("/v1/model-operations", chat_operation()),
            ("/v1/chat/completions", {"model": "llm"}),
        ):
            status, headers, raw = await running.post(path, body)
            assert (status, json.loads(raw)["error"]["code"]) == (502, "transport_lost")
            assert headers["x-pumas-outcome"] == "not_admitted"
        await running.idle()
        assert upstream.seen == []


async def test_a_shutdown_does_not_wait_for_a_body(upstream: ScriptedUpstream) -> None:
    async with (
        running_router(external(upstream.url)) as running,
        running.raw("/v1/model-operations", b"{", announced=100) as (reader, _),
    ):
        await eventually(lambda: len(running.router.sessions) == 1, "the body is awaited")
        running.router.shutdown()
        async with at_once():
            assert b" 502 " in await reader.readline()
            await running.idle()


async def test_readiness_during_a_drain(upstream: ScriptedUpstream) -> None:
    async with running_router(external(upstream.url)) as running:
        assert (await running.get("/readyz"))[0] == 200
        assert (await running.get("/healthz"))[0] == 200
        running.router.drain()
        assert (await running.get("/readyz"))[0] == 503
        assert (await running.get("/healthz"))[0] == 200
        # Those that come nevertheless are served.
        assert (await running.operate(chat_operation()))[0] == 200


async def test_leaving_waits_for_admitted_calls_and_then_ends_them(
    upstream: ScriptedUpstream,
) -> None:
    go = asyncio.Event()

    async def waits(talk: Conversation) -> None:
        if b"patient" in talk.request.body:
            await go.wait()
            await say_hello(talk)
        else:
            await talk.caller_left()

    upstream.script = waits
    message = {"role": "user", "content": "patient"}
    settings = RouterSettings(propagation_seconds=0, drain_seconds=0.3, connect_seconds=2)
    connections = aiohttp.TCPConnector()
    async with aiohttp.ClientSession(connector=connections) as client:
        async with running_router(external(upstream.url), settings=settings) as running:
            url = f"http://127.0.0.1:{running.port}/v1/model-operations"

            async def call(operation: object) -> tuple[int, bytes]:
                async with client.post(url, json=operation) as answer:
                    return answer.status, await answer.read()

            quick = asyncio.create_task(
                call(chat_operation(input={"kind": "messages", "messages": [message]}))
            )
            hanging = asyncio.create_task(call(chat_operation()))
            streaming = asyncio.create_task(call(chat_operation(stream=True)))
            await eventually(lambda: len(upstream.seen) == 3, "three calls are admitted")
            asyncio.get_running_loop().call_later(0.05, go.set)
        assert (await quick)[0] == 200
        for task in (hanging, streaming):
            status, raw = await task
            assert status == 502
            error = json.loads(raw)["error"]
            assert (error["code"], error["outcome"]) == ("transport_lost", "unknown")
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(f"http://127.0.0.1:{running.port}/healthz")
    assert len(upstream.seen) == 3
