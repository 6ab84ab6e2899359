"""Long bodies of every kind are read as short ones are, and elsewhere; no trap holds up a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from pumas_server.contract.bounds import MAX_REQUEST_BYTES, MAX_VALUES
from pumas_server.provider import envelope
from pumas_server.router.growing_body import LONG_BYTES
from pumas_server.router.refusals import Reason
from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, chat_operation, external, running_router
from support.upstream import Conversation, ScriptedUpstream

pytestmark = SHARED_LOOP

OPERATIONS, CHAT = "/v1/model-operations", "/v1/chat/completions"
WIDTH, COUNT = 1024, 128


class Provider:
    """Answers embeddings with vectors of `WIDTH`, and the rest with the length of what it got."""

    def __init__(self) -> None:
        self.upstream = ScriptedUpstream(self.talk)

    async def talk(self, talk: Conversation) -> None:
        body = json.loads(talk.request.body)
        if talk.request.path.endswith("/embeddings"):
            vector = [0.1 + index / 7 for index in range(WIDTH)]
            data = [{"index": i, "embedding": vector} for i in range(len(body["input"]))]
            await talk.whole(200, json.dumps({"data": data}).encode())
        else:
            told = {"model": body["model"], "bytes": len(talk.request.body)}
            await talk.whole(200, json.dumps(told).encode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def router() -> AsyncIterator[RunningRouter]:
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(Provider().upstream.serving())
        models = [
            external(provider.url),
            external(provider.url, alias="emb", task="feature-extraction"),
        ]
        running = await stack.enter_async_context(running_router(*models))
        yield running


def reader() -> psutil.Process:
    (child,) = (
        child
        for child in psutil.Process().children()
        if "pumas_server.router.body_reader" in child.cmdline()
    )
    return child


def most_memory(process: psutil.Process) -> int:
    """The bytes of memory that it ever had at once."""
    told = Path(f"/proc/{process.pid}/status").read_text()
    return int(told.partition("VmHWM:")[2].split()[0]) * 1024


def forwarded(text: str, **members: Any) -> bytes:
    message = {"role": "user", "content": text}
    return json.dumps(
        {"messages": [message], "model": "llm", **members}, ensure_ascii=False
    ).encode()


@pytest.mark.parametrize("letter", ["a", "é", "😀", '"'])
async def test_a_long_forwarded_body_arrives_with_the_providers_name(
    router: RunningRouter, letter: str
) -> None:
    body = forwarded(letter * LONG_BYTES)
    status, _, raw = await router.post(CHAT, body)
    assert status == 200
    assert json.loads(raw) == {"model": "served", "bytes": len(body) + len("served") - len("llm")}


@pytest.mark.parametrize("size", [10, LONG_BYTES])
async def test_what_is_wrong_with_a_body_is_told_alike(router: RunningRouter, size: int) -> None:
    wrong = chat_operation(request_id="r:1", junk="a" * size)
    status, told = await router.operate(wrong)
    assert (status, told["request_id"]) == (400, "r:1")
    assert told["error"]["code"] == "invalid_request"
    assert "`junk`" in told["error"]["message"]
    status, _, raw = await router.post(CHAT, forwarded("a" * size, model=7))
    assert status == 400
    assert "`model`" in json.loads(raw)["error"]["message"]


async def test_a_long_operation_is_carried_out(router: RunningRouter) -> None:
    texts = ["a" * (LONG_BYTES // COUNT)] * COUNT
    asked = chat_operation(
        model="emb",
        capability="text_embedding",
        input={"kind": "text_batch", "texts": texts},
        output="embeddings_float32",
        options=None,
    )
    status, told = await router.operate(asked)
    assert status == 200, told
    vectors = told["result"]["vectors"]
    assert (len(vectors), {len(vector) for vector in vectors}) == (COUNT, {WIDTH})
    assert vectors[0][3] == 0.1 + 3 / 7


@pytest.mark.parametrize(
    ("path", "most", "served"),
    [(OPERATIONS, MAX_VALUES, 400), (CHAT, envelope.MAX_VALUES, 200)],
    ids=["typed", "forwarded"],
)
async def test_more_values_than_may_be(
    router: RunningRouter, path: str, most: int, served: int
) -> None:
    # The root, two members of it, and the items of the second, the last of which is a number.
    head, unit, tail = b'{"model":"llm","junk":[', b"[],", b"0]}"
    status, _, _ = await router.post(path, head + unit * (most - 4) + tail)
    assert status == served
    before = most_memory(reader())
    status, headers, raw = await router.post(path, head + unit * (most - 3) + tail)
    assert (status, headers["x-pumas-outcome"]) == (413, "not_admitted")
    told = json.loads(raw)["error"]["message"]
    assert told == f"the body holds {most + 1} JSON values; at most {most} are allowed"
    fill = unit * ((MAX_REQUEST_BYTES - len(head + tail)) // len(unit))
    status, _, _ = await router.post(path, head + fill + tail)
    assert status == 413
    # Nothing was made of eleven million lists, which take a gigabyte and a half.
    assert most_memory(reader()) - before < 200_000_000


async def test_a_reader_that_ends_costs_the_call_that_it_read(router: RunningRouter) -> None:
    refused = router.router.refusals.counts
    before = refused[Reason.BODY_READER]
    status, _, _ = await router.post(CHAT, forwarded("a" * LONG_BYTES))
    assert status == 200
    child = reader()
    child.suspend()
    waiting = asyncio.create_task(router.post(CHAT, forwarded("a" * LONG_BYTES)))
    # Whatever is short is served meanwhile.
    for _ in range(3):
        status, _, _ = await router.post(CHAT, forwarded("a"))
        assert status == 200
    assert not waiting.done()
    child.kill()
    status, headers, raw = await waiting
    assert (status, headers["x-pumas-outcome"]) == (503, "not_admitted")
    assert json.loads(raw)["error"]["code"] == "capability_unavailable"
    assert refused[Reason.BODY_READER] == before + 1
    status, _, _ = await router.post(CHAT, forwarded("a" * LONG_BYTES))
    assert status == 200


async def test_a_caller_that_leaves_waits_for_no_reader(router: RunningRouter) -> None:
    status, _, _ = await router.post(CHAT, forwarded("a" * LONG_BYTES))
    assert status == 200
    child = reader()
    child.suspend()
    leaving = asyncio.create_task(router.post(CHAT, forwarded("a" * LONG_BYTES)))
    await eventually(lambda: len(router.router.sessions) == 1, "a call")
    leaving.cancel()
    await eventually(lambda: len(router.router.sessions) == 0, "its end")
    child.resume()
    status, _, _ = await router.post(CHAT, forwarded("a" * LONG_BYTES))
    assert status == 200
