"""Streams, as they come: every record at once, none early, whatever the chunks are."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence

import aiohttp
import pytest

from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, chat_operation, records
from support.upstream import DONE, HELLO, Conversation, Script, ScriptedUpstream, chat, text

pytestmark = SHARED_LOOP

HELLO_RECORDS = [
    (
        "started",
        {
            "kind": "started",
            "contract_version": 1,
            "request_id": "r1",
            "capability": "chat_generation",
            "model": "llm",
            "profile": "default",
        },
    ),
    ("delta", {"kind": "delta", "request_id": "r1", "text": "hel"}),
    ("delta", {"kind": "delta", "request_id": "r1", "text": "lo"}),
    ("completed", {"kind": "completed", "request_id": "r1", "finish_reason": "stop"}),
]


def in_chunks(pieces: Sequence[bytes]) -> Script:
    async def script(talk: Conversation) -> None:
        await talk.head()
        for piece in pieces:
            await talk.chunk(piece)
            # The router is in this loop: let it read what was sent before more comes.
            for _ in range(3):
                await asyncio.sleep(0)
        await talk.end()

    return script


async def test_case_69_records_of_a_stream(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    assert await router.stream(chat_operation()) == HELLO_RECORDS
    assert len(upstream.seen) == 1


async def test_case_69_utf8_crlf_comments_and_many_data_lines(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    stream = (
        b"\xef\xbb\xbf: ping\r\n\r\n"
        b"event: message\r\nid: 7\r\nretry: 1\r\n"
        b'data: {"choices":[{"index":0,\r\ndata:"delta":{"content":"'
        + "a\u2028ü\u0085€😀".encode()
        + b'"},"finish_reason":null}]}\r\n\r\n'
        + b'data: {"choices":[],"usage":{"total_tokens":1}}\r\r'
        + chat("", "length")
        + b": bye\n\n"
        + DONE
        + b": and a comment\n\n"
    )
    upstream.script = in_chunks([stream[i : i + 1] for i in range(len(stream))])
    told = await router.stream(chat_operation())
    assert [kind for kind, _ in told] == ["started", "delta", "completed"]
    assert told[1][1]["text"] == "a\u2028ü\u0085€😀"
    assert told[2][1]["finish_reason"] == "length"


async def test_every_split_of_a_stream_gives_the_same_records(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    stream = b"".join(HELLO)
    for at in range(1, len(stream)):
        upstream.script = in_chunks([stream[:at], stream[at:]])
        assert await router.stream(chat_operation()) == HELLO_RECORDS, at
    assert len(upstream.seen) == len(stream) - 1


async def test_every_split_of_the_header_and_framing(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    stream = b"".join(HELLO)
    whole = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        + b"%x\r\n%s\r\n0\r\n\r\n" % (len(stream), stream)
    )
    positions = [*range(1, 100), *range(len(whole) - 12, len(whole))]
    for at in positions:

        async def script(talk: Conversation, at: int = at) -> None:
            await talk.send(whole[:at])
            for _ in range(3):
                await asyncio.sleep(0)
            await talk.send(whole[at:])

        upstream.script = script
        assert await router.stream(chat_operation()) == HELLO_RECORDS, at


async def test_case_70_a_delta_is_seen_before_the_next_event_is_sent(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    turns = [asyncio.Event() for _ in range(3)]

    async def paused(talk: Conversation) -> None:
        await talk.head()
        await turns[0].wait()
        await talk.chunk(chat("first"))
        await turns[1].wait()
        await talk.chunk(chat(None, "stop") + DONE)
        await turns[2].wait()
        await talk.end()

    upstream.script = paused
    got = b""
    async with (
        asyncio.timeout(5),
        router.client.post("/v1/model-operations", json=chat_operation(stream=True)) as answer,
    ):

        async def until(mark: bytes) -> None:
            nonlocal got
            while mark not in got:
                piece = await answer.content.readany()
                assert piece, got
                got += piece

        await until(b"event: started")
        assert b"delta" not in got
        turns[0].set()
        await until(b'"text": "first"')
        turns[1].set()
        # All that the provider has to say is said; but its body has not ended yet.
        await eventually(lambda: not turns[2].is_set() or None, "the provider waits")
        reading = asyncio.create_task(answer.content.readany())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not reading.done()
        assert router.router.admission.in_flight == 1
        turns[2].set()
        got += await reading + await answer.content.read()
    assert [kind for kind, _ in records(got)] == ["started", "delta", "completed"]


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions"])
async def test_case_70_openai_events_pass_as_they_come(
    router: RunningRouter, upstream: ScriptedUpstream, route: str
) -> None:
    turn = asyncio.Event()
    first, rest = b": odd\r\n\r\ndata:   {\xc3\xa4 not even JSON\n\n", text("b", "stop") + DONE

    async def paused(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(first)
        await turn.wait()
        await talk.chunk(rest)
        await talk.end()

    upstream.script = paused
    async with (
        asyncio.timeout(5),
        router.client.post(route, json={"model": "llm", "stream": True}) as answer,
    ):
        got = b""
        while got != first:
            piece = await answer.content.readany()
            assert piece, got
            got += piece
        turn.set()
        got += await answer.content.read()
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert got == first + rest
    assert upstream.seen[0].path == route


async def test_a_long_finite_answer_passes_as_it_comes(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    turn = asyncio.Event()
    half = b"x" * 1_500_000

    async def long(talk: Conversation) -> None:
        await talk.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            b"content-length: 3000000\r\n\r\n" + half
        )
        await turn.wait()
        await talk.send(half)

    upstream.script = long
    async with (
        asyncio.timeout(5),
        router.client.post("/v1/chat/completions", json={"model": "llm"}) as answer,
    ):
        assert answer.headers["content-length"] == "3000000"
        got = len(await answer.content.readexactly(len(half)))
        assert router.router.admission.in_flight == 1
        turn.set()
        got += len(await answer.content.read())
    assert got == 3_000_000


async def test_byte_33554433_of_a_passed_stream_breaks_the_connection(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    piece = b"x" * 65_536

    async def exactly(talk: Conversation) -> None:
        await talk.head()
        for _ in range(512):
            await talk.chunk(piece)
        await talk.end()

    async def more(talk: Conversation) -> None:
        await talk.head()
        for _ in range(512):
            await talk.chunk(piece)
        await talk.chunk(b"x")
        await talk.end()

    body = {"model": "llm", "stream": True}
    upstream.script = exactly
    assert len((await router.post("/v1/chat/completions", body))[2]) == 33_554_432
    upstream.script = more
    with pytest.raises(aiohttp.ClientPayloadError):
        await router.post("/v1/chat/completions", body)
    assert len(upstream.seen) == 2


async def test_a_stream_answered_with_json_is_a_provider_failure(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async def whole(talk: Conversation) -> None:
        await talk.whole(200, b'{"choices":[]}')

    upstream.script = whole
    status, headers, raw = await router.post(
        "/v1/chat/completions", {"model": "llm", "stream": True}
    )
    assert (status, json.loads(raw)["error"]["code"]) == (502, "provider_failure")
    assert headers["x-pumas-outcome"] == "unknown"


async def test_a_stream_that_ends_with_its_connection(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    """Without framing the end of the connection is the end of the body."""

    async def unframed(talk: Conversation) -> None:
        await talk.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        await talk.send(b"".join(HELLO))
        talk.cut()

    upstream.script = unframed
    assert await router.stream(chat_operation()) == HELLO_RECORDS


async def test_deltas_of_one_chunk_are_all_delivered(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    words = [str(n) for n in range(2000)]
    events = b"".join(itertools.chain(map(chat, words), [chat(None, "stop"), DONE]))
    upstream.script = in_chunks([events])
    told = await router.stream(chat_operation())
    assert [d["text"] for kind, d in told if kind == "delta"] == words
