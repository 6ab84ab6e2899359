"""Answers that are not HTTP, or are HTTP that no caller may be given. No traceback, no hang."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from support.routers import SHARED_LOOP, RunningRouter, chat_operation
from support.upstream import Conversation, ScriptedUpstream, chat

pytestmark = SHARED_LOOP

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = chat("hel")
WHOLE_CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)

NO_HEADER: dict[str, bytes] = {
    "nothing": b"",
    "not HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "garbage": b"\x00\x01\x02\r\n\r\n",
    "half a header": b"HTTP/1.1 200 OK\r\ncontent-ty",
    "only a 100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "a line without an end": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 20_000 + b"\r\n\r\n",
    "500 header lines": b"HTTP/1.1 200 OK\r\n" + b"x: a\r\n" * 500 + b"\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}x",
    "a length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n"
    b"\r\n5\r\nhello\r\n0\r\n\r\n",
    "no number as length": b"HTTP/1.1 200 OK\r\ncontent-length: abc\r\n\r\n{}",
    "a length beyond counting": b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 26 + b"\r\n\r\n{}",
}

BROKEN_BODY: dict[str, bytes] = {
    "no chunk size": b"zz\r\nhello\r\n",
    "a negative chunk": b"-5\r\nhello\r\n",
    "a chunk beyond counting": b"ffffffffffffffffff\r\nhello\r\n",
    "a chunk that is longer than it says": b"5\r\nhelloXX7\r\n",
    "a chunk size without an end": b"0" * 100_000,
    "an extension without an end": b"5;" + b"a" * 100_000 + b"\r\nhello\r\n",
    "a trailer without an end": b"0\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", NO_HEADER)
async def test_no_header(
    router: RunningRouter, upstream: ScriptedUpstream, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(talk: Conversation) -> None:
        await talk.send(NO_HEADER[name])
        talk.cut()

    upstream.script = script
    for streamed in (False, True):
        status, body = await router.operate(chat_operation(stream=streamed))
        assert (status, body["error"]["code"]) == (502, "transport_lost")
        assert body["error"]["outcome"] == "unknown"
        status, headers, raw = await router.post(
            "/v1/chat/completions", {"model": "llm", "stream": streamed}
        )
        assert (status, json.loads(raw)["error"]["code"]) == (502, "transport_lost")
        assert headers["x-pumas-outcome"] == "unknown"
        assert headers["x-should-retry"] == "false"
    assert len(upstream.seen) == 4
    assert not caplog.records


@pytest.mark.parametrize("name", BROKEN_BODY)
async def test_a_body_whose_framing_breaks_ends_at_once(
    router: RunningRouter, upstream: ScriptedUpstream, name: str
) -> None:
    reached = asyncio.Event()

    async def script(talk: Conversation) -> None:
        # In pieces: what is broken comes after the header and a whole chunk were read.
        await talk.send(STREAM + WHOLE_CHUNK)
        await reached.wait()
        await talk.send(BROKEN_BODY[name])
        talk.cut()

    async def read(path: str, body: object) -> bytes:
        reached.clear()
        got = b""
        async with router.client.post(path, json=body) as answer:
            async for piece in answer.content.iter_any():
                got += piece
                if b"hel" in got:
                    reached.set()
        return got

    upstream.script = script
    async with asyncio.timeout(5):
        got = await read("/v1/model-operations", chat_operation(stream=True))
        assert b"event: failed" in got
        assert b"transport_lost" in got
        assert b"completed" not in got
        with pytest.raises(aiohttp.ClientPayloadError):
            await read("/v1/chat/completions", {"model": "llm", "stream": True})
        status, body = await router.operate(chat_operation())
        assert (status, body["error"]["code"]) == (502, "transport_lost")
    assert len(upstream.seen) == 3


@pytest.mark.parametrize("line", ["999 X", "600 X", "099 X", "101 X", "304 X", "302 X"])
async def test_a_status_that_is_no_answer(
    router: RunningRouter, upstream: ScriptedUpstream, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(talk: Conversation) -> None:
        await talk.send(f"HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n".encode())
        talk.cut()

    upstream.script = script
    assert (await router.operate(chat_operation()))[1]["error"]["code"] == "provider_failure"
    status, headers, raw = await router.post("/v1/chat/completions", {"model": "llm"})
    assert (status, json.loads(raw)["error"]["code"]) == (502, "provider_failure")
    assert headers["x-pumas-outcome"] == "unknown"
    assert len(upstream.seen) == 2
    assert not caplog.records


@pytest.mark.parametrize("value", [b"te\x01xt", b"text/\xff\xfe", "text/€".encode()])
async def test_a_header_that_no_server_could_send(
    router: RunningRouter, upstream: ScriptedUpstream, value: bytes
) -> None:
    async def script(talk: Conversation) -> None:
        await talk.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: " + value + b"\r\ncontent-length: 2\r\n\r\n{}"
        )

    upstream.script = script
    status, headers, raw = await router.post("/v1/chat/completions", {"model": "llm"})
    assert (status, raw) == (200, b"{}")
    sendable = b"\x01" not in value
    assert ("content-type" in headers) is sendable
    assert (await router.operate(chat_operation()))[1]["error"]["code"] == "provider_failure"


async def test_bytes_behind_an_answer_are_nobodys(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    """A connection on which more came than was asked for is not used again."""

    async def script(talk: Conversation) -> None:
        await talk.whole(200, b'{"first":1}')
        await talk.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npoisoned!")

    upstream.script = script
    before = len(upstream.uses)
    for _ in range(3):
        status, _, raw = await router.post("/v1/chat/completions", {"model": "llm"})
        assert (status, raw) in ((200, b'{"first":1}'), (502, raw))
        assert b"poisoned" not in raw
    assert len(upstream.uses) > before
