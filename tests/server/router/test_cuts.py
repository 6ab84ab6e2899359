"""The provider's connection ends early: with FIN, with RST, or not at all while the caller leaves.

At every place of an answer, for a finite and for a streamed call, on the contract and on an OpenAI
route. Always exactly one request, always `unknown`, never a clean end.
"""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, chat_operation
from support.upstream import DONE, Conversation, Script, ScriptedUpstream, chat

pytestmark = SHARED_LOOP

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


#: What was sent when it happens.
PLACES: dict[str, bytes] = {
    "before the header": b"",
    "inside the header": HEAD[:40],
    "after the header": HEAD,
    "inside an event": HEAD + chunk(chat("hel") + chat("lo")[:20]),
    "inside a chunk": HEAD + chunk(chat("hel"))[:-8],
    "between events": HEAD + chunk(chat("hel")),
    "after the finish": HEAD + chunk(chat("hel") + chat("lo", "stop")),
    "after [DONE]": HEAD + chunk(chat("hel") + chat("lo", "stop") + DONE),
}
BEFORE_HEADER = {"before the header", "inside the header"}
FAULTS = ["cut", "reset"]


def sends(data: bytes, fault: str, read: asyncio.Event) -> Script:
    async def script(talk: Conversation) -> None:
        await talk.send(data)
        # A reset discards what the other side has not read.
        await read.wait()
        talk.cut() if fault == "cut" else talk.reset()

    return script


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("place", PLACES)
async def test_streamed(
    router: RunningRouter, upstream: ScriptedUpstream, place: str, fault: str
) -> None:
    read = asyncio.Event()
    upstream.script = sends(PLACES[place], fault, read)
    if place in BEFORE_HEADER:
        read.set()
        status, body = await router.operate(chat_operation(stream=True))
        assert (status, body["error"]["code"]) == (502, "transport_lost")
        assert body["error"]["outcome"] == "unknown"
    else:
        got = b""
        async with router.client.post(
            "/v1/model-operations", json=chat_operation(stream=True)
        ) as answer:
            async for piece in answer.content.iter_any():
                got += piece
                if b"delta" in got or b"hel" not in PLACES[place] or place == "inside a chunk":
                    read.set()
        assert got.count(b"event: failed") == 1
        assert b"transport_lost" in got
        assert b"completed" not in got
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("place", PLACES)
async def test_finite(
    router: RunningRouter, upstream: ScriptedUpstream, place: str, fault: str
) -> None:
    read = asyncio.Event()
    read.set()
    upstream.script = sends(PLACES[place], fault, read)
    status, body = await router.operate(chat_operation())
    assert (status, body["error"]["code"]) == (502, "transport_lost")
    assert body["error"]["outcome"] == "unknown"
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("place", PLACES)
async def test_openai_stream(
    router: RunningRouter, upstream: ScriptedUpstream, place: str, fault: str
) -> None:
    read = asyncio.Event()
    upstream.script = sends(PLACES[place], fault, read)
    body = {"model": "llm", "stream": True}
    if place in BEFORE_HEADER:
        read.set()
        status, headers, raw = await router.post("/v1/chat/completions", body)
        assert (status, json.loads(raw)["error"]["code"]) == (502, "transport_lost")
        assert headers["x-pumas-outcome"] == "unknown"
    else:
        async with router.client.post("/v1/chat/completions", json=body) as answer:
            assert answer.status == 200
            read.set()
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.content.read()
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("sent", [0, 1_000, 2_000_000])
async def test_openai_finite(
    router: RunningRouter, upstream: ScriptedUpstream, sent: int, fault: str
) -> None:
    """A short answer that breaks is told in an error body, a long one breaks in turn."""

    async def short(talk: Conversation) -> None:
        head = (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 3000000\r\n\r\n"
        )
        await talk.send(head + b"x" * sent)
        talk.cut() if fault == "cut" else talk.reset()

    upstream.script = short
    body = {"model": "llm"}
    try:
        status, headers, raw = await router.post("/v1/chat/completions", body)
    except aiohttp.ClientPayloadError:
        assert sent == 2_000_000
    else:
        # A reset may overtake the bytes before it.
        assert sent < 2_000_000 or fault == "reset"
        assert (status, json.loads(raw)["error"]["code"]) == (502, "transport_lost")
        assert headers["x-pumas-outcome"] == "unknown"
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["finite", "streamed"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("route", ["/v1/model-operations", "/v1/chat/completions"])
async def test_a_stall_until_the_caller_leaves(
    router: RunningRouter, upstream: ScriptedUpstream, route: str, place: str, streamed: bool
) -> None:
    stalled, left = asyncio.Event(), asyncio.Event()

    async def script(talk: Conversation) -> None:
        await talk.send(PLACES[place])
        stalled.set()
        await talk.caller_left()
        left.set()

    upstream.script = script
    contract = route == "/v1/model-operations"
    body = chat_operation(stream=streamed) if contract else {"model": "llm", "stream": streamed}
    async with router.raw(route, body) as (reader, _):
        await asyncio.wait_for(stalled.wait(), 5)
        if streamed and place not in BEFORE_HEADER:
            assert b" 200 " in await reader.readline()
        else:
            await eventually(lambda: router.router.admission.in_flight == 1, "a permit is held")
    async with asyncio.timeout(1):
        await left.wait()
    await router.idle()
    assert len(upstream.seen) == 1
