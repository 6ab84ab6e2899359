"""Model operations through the real router, against a scripted provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.routers import RunningRouter, chat_operation, eventually, external, running_router
from support.upstream import DONE, Conversation, ScriptedUpstream, chat, event, text


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream().serving() as scripted:
        yield scripted


@pytest.fixture
async def router(upstream: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    async with running_router(external(upstream.url)) as running:
        yield running


async def test_case_1_finite_answer_holds_nothing_private(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    status, body = await router.operate(chat_operation())
    assert (status, body) == (
        200,
        {
            "contract_version": 1,
            "request_id": "r1",
            "result": {"kind": "text", "text": "hello", "finish_reason": "stop"},
        },
    )
    await router.idle()
    (seen,) = upstream.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.json == {
        "model": "served",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "n": 1,
    }


async def test_disconnect_closes_upstream(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    left = asyncio.Event()

    async def silent(talk: Conversation) -> None:
        await talk.caller_left()
        left.set()

    upstream.script = silent
    task = asyncio.create_task(router.operate(chat_operation()))
    await eventually(lambda: len(upstream.seen) == 1)
    task.cancel()
    async with asyncio.timeout(1):
        await left.wait()
    await router.idle()
    upstream.script = ScriptedUpstream().script
    assert (await router.operate(chat_operation()))[0] == 200
    assert len(upstream.seen) == 2


async def test_stream(router: RunningRouter, upstream: ScriptedUpstream) -> None:
    go = asyncio.Event()

    async def paused(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(text("a"))
        await go.wait()
        await talk.chunk(text("b", "length") + DONE)
        await talk.end()

    upstream.script = paused
    body = chat_operation(
        capability="text_generation", input={"kind": "text", "text": "x"}, stream=True
    )
    async with router.client.post("/v1/model-operations", json=body) as answer:
        got = b""
        while b'"text": "a"' not in got:
            got += await answer.content.readany()
        go.set()
        got += await answer.content.read()
    assert b"event: completed" in got, got
    await router.idle()


async def test_errors(router: RunningRouter, upstream: ScriptedUpstream) -> None:
    async def refuse(talk: Conversation) -> None:
        await talk.whole(500, b'{"error":{"message":"at /models/x.gguf"}}')

    upstream.script = refuse
    print(await router.operate(chat_operation()))

    async def cut(talk: Conversation) -> None:
        talk.cut()

    upstream.script = cut
    print(await router.operate(chat_operation()))

    async def reset(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("a"))
        talk.reset()

    upstream.script = reset
    print(await router.operate(chat_operation()))
    print(await router.operate(chat_operation(model="nope")))
    print(await router.operate(chat_operation(capability=...)))
    print(event({}))
    await router.idle()
