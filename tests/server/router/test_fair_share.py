"""One hung model, or one hung pod, and everybody else's calls."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from pumas_server.router.refusals import Reason
from pumas_server.router.source import Endpoint
from support.eventually import eventually
from support.raw_caller import calling, post
from support.routers import TEST_SETTINGS, chat_operation, external, running_router
from support.upstream import Conversation, ScriptedUpstream, say_hello

SETTINGS = replace(TEST_SETTINGS, max_in_flight=20, external_in_flight=20)


async def hang(talk: Conversation) -> None:
    await talk.caller_left()


@pytest.fixture
async def good() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(say_hello).serving() as upstream:
        yield upstream


@pytest.fixture
async def hung() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(hang).serving() as upstream:
        yield upstream


async def test_a_hung_model_does_not_starve_another(
    good: ScriptedUpstream, hung: ScriptedUpstream
) -> None:
    models = (external(good.url, "good"), external(hung.url, "hung"))
    body = json.dumps(chat_operation(model="hung")).encode()
    async with running_router(*models, settings=SETTINGS) as running, AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(calling(running.port)) for _ in range(40)]
        for caller in callers:
            await caller.send(post("/v1/model-operations", body))
        await eventually(lambda: len(hung.seen) == 10, "the hung model has its share")
        # Ten at once is what is left; the good model's share of that is five.
        for _ in range(6):
            answers = await asyncio.gather(
                *(running.operate(chat_operation(model="good")) for _ in range(5))
            )
            assert [status for status, _ in answers] == [200] * 5
        status, told = await running.operate(chat_operation(model="hung"))
        assert (status, told["error"]["code"]) == (503, "capability_unavailable")
        assert told["error"]["outcome"] == "not_admitted"
        assert "the model has 10 of the 20 calls" in told["error"]["message"]
        assert running.router.refusals.counts[Reason.MODEL_SHARE] == 31
        assert running.router.refusals.counts[Reason.MAX_IN_FLIGHT] == 0
        await stack.aclose()
        await running.idle()


async def test_a_model_that_is_alone_has_all_of_them(hung: ScriptedUpstream) -> None:
    body = json.dumps(chat_operation()).encode()
    async with (
        running_router(external(hung.url), settings=SETTINGS) as running,
        AsyncExitStack() as stack,
    ):
        for _ in range(25):
            caller = await stack.enter_async_context(calling(running.port))
            await caller.send(post("/v1/model-operations", body))
        refused = running.router.refusals.counts
        await eventually(lambda: refused[Reason.MAX_IN_FLIGHT] == 5, "five are too many")
        assert len(hung.seen) == 20
        await stack.aclose()
        await running.idle()


async def test_one_call_at_a_time_a_hung_pod_gets_one(
    good: ScriptedUpstream, hung: ScriptedUpstream
) -> None:
    """It has a call more than the idle ones from then on."""
    record = external(good.url)
    async with ScriptedUpstream(say_hello).serving() as second:
        pods = tuple(
            Endpoint(str(i), url, None, True)
            for i, url in enumerate((good.url, hung.url, second.url))
        )
        async with running_router(replace(record, endpoints=pods), settings=SETTINGS) as running:
            await running.until(lambda c: len(c.rows[0].targets) == 3)
            hanging: list[asyncio.Task[tuple[int, object]]] = []
            answered = Counter[int]()
            for _ in range(20):
                call = asyncio.create_task(running.operate(chat_operation()))
                before = len(hung.seen)
                await eventually(
                    lambda call=call, before=before: call.done() or len(hung.seen) > before,
                    "it is answered or hangs",
                )
                if call.done():
                    answered[call.result()[0]] += 1
                else:
                    hanging.append(call)
            assert answered == {200: 19}
            assert len(hanging) == 1
            assert abs(len(good.seen) - len(second.seen)) <= 1
            for call in hanging:
                call.cancel()
            await asyncio.gather(*hanging, return_exceptions=True)
            await running.idle()


async def test_a_full_pod_is_counted(hung: ScriptedUpstream) -> None:
    settings = replace(SETTINGS, external_in_flight=1)
    async with (
        running_router(external(hung.url), settings=settings) as running,
        calling(running.port) as caller,
    ):
        await caller.send(post("/v1/model-operations", json.dumps(chat_operation()).encode()))
        await eventually(lambda: len(hung.seen) == 1, "the pod is full")
        status, told = await running.operate(chat_operation())
        assert (status, told["error"]["outcome"]) == (503, "not_admitted")
        assert "all 1 calls that the model admits" in told["error"]["message"]
        assert running.router.refusals.counts[Reason.POD_IN_FLIGHT] == 1
