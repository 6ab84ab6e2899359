"""Answers that end broken, in the router's log: on purpose it is no error, by mistake it is one."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from pumas_server.router import openai_api
from pumas_server.router.asgi import Send
from pumas_server.telemetry import FIELDS, OPERATIONS
from support.routers import RunningRouter, external, running_router
from support.upstream import Conversation, ScriptedUpstream, chat

CHAT = "/v1/chat/completions"
LONG = 2_000_000
"""More than is held back until it is whole."""


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO):
        yield caplog


def operations(log: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Code and outcome of every operation's line."""
    told = [getattr(r, FIELDS) for r in log.records if r.name == OPERATIONS]
    return [(line["code"], line["outcome"]) for line in (json.loads(f"{{{t}}}") for t in told)]


def complaints(log: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in log.records if r.levelno > logging.INFO]


async def stream(talk: Conversation) -> None:
    """Begins a stream, and is gone."""
    await talk.head()
    await talk.chunk(chat("hel"))
    talk.cut()


async def long_answer(talk: Conversation) -> None:
    """Sends less than it announced, and is gone."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    await talk.send(head % (2 * LONG) + b"x" * LONG)
    talk.cut()


async def whole(talk: Conversation) -> None:
    """A stream that ends as it should."""
    await talk.head()
    await talk.chunk(chat("hello", "stop"))
    await talk.end()


async def broken(running: RunningRouter, **more: Any) -> None:
    """Make a call of which the answer begins and ends broken."""
    async with running.client.post(CHAT, json={"model": "llm", **more}) as answer:
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    await running.idle()


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "long answer"])
async def test_one_that_the_provider_broke_is_an_operation_and_no_error(
    log: pytest.LogCaptureFixture, streamed: bool
) -> None:
    async with (
        ScriptedUpstream(stream if streamed else long_answer).serving() as upstream,
        running_router(external(upstream.url)) as running,
    ):
        await broken(running, stream=streamed)
        assert operations(log) == [("transport_lost", "unknown")]
        assert complaints(log) == []


async def test_nor_is_one_that_is_too_long(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_api, "MAX_RESPONSE_BYTES", 10)
    async with (
        ScriptedUpstream(whole).serving() as upstream,
        running_router(external(upstream.url)) as running,
    ):
        await broken(running, stream=True)
        assert operations(log) == [("response_limit", "unknown")]
        assert complaints(log) == []


async def test_nor_is_one_that_a_stop_ends(log: pytest.LogCaptureFixture) -> None:
    async def endless(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("hel"))
        await talk.caller_left()

    async with (
        ScriptedUpstream(endless).serving() as upstream,
        running_router(external(upstream.url)) as running,
        running.client.post(CHAT, json={"model": "llm", "stream": True}) as answer,
    ):
        await answer.content.readany()
        running.router.shutdown()
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.content.read()
        await running.idle()
        assert operations(log) == [("transport_lost", "unknown")]
        assert complaints(log) == []


async def test_a_fault_of_ours_behind_the_header_is_an_error(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(send: Send, piece: bytes) -> None:
        raise RuntimeError("secret words")

    monkeypatch.setattr(openai_api, "send_piece", fail)
    async with (
        ScriptedUpstream(whole).serving() as upstream,
        running_router(external(upstream.url)) as running,
    ):
        await broken(running, stream=True)
        assert operations(log) == [("internal_error", "unknown")]
        assert complaints(log)[0] == "a request failed inside the router"
        assert "secret words" in log.text


async def test_an_answer_that_nobody_ended_is_an_error(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget(send: Send) -> None:
        pass

    monkeypatch.setattr(openai_api, "send_end", forget)
    async with (
        ScriptedUpstream(whole).serving() as upstream,
        running_router(external(upstream.url)) as running,
    ):
        await broken(running, stream=True)
        assert complaints(log) == ["ASGI callable returned without completing response."]
