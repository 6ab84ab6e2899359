"""A caller that stops reading: kept, cheap, and its provider waits; it reads on and gets all of it."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from support.eventually import eventually
from support.fast_forward import FastForward, turns
from support.raw_caller import calling, post
from support.routers import (
    TEST_SETTINGS,
    RunningRouter,
    chat_operation,
    external,
    records,
    running_router,
)
from support.upstream import DONE, Conversation, ScriptedUpstream, chat

OPERATIONS = "/v1/model-operations"
CHAT = "/v1/chat/completions"

#: Whatever has a deadline has it well before the callers read on: the clock is set ahead. But for
#: connecting, in which a loop that is busy with seven long answers would miss a short one.
SHORT = 2.0
SETTINGS = replace(
    TEST_SETTINGS,
    header_seconds=SHORT,
    body_seconds=SHORT,
    idle_seconds=5,
    linger_seconds=SHORT,
    connect_seconds=60,
)

PIECES = 5000
"""Of 4 kB: more than the sockets' own buffers take."""
TOTAL = 20_000_000


def piece(index: int) -> str:
    return f"{index:08d}" + "x" * 3992


@dataclass
class Provider:
    """Answers at length, and knows how much of it was taken."""

    taken: list[int] = field(default_factory=list)
    """Bytes that each call's connection has taken, in the order in which they came."""

    async def __call__(self, talk: Conversation) -> None:
        mine = len(self.taken)
        self.taken.append(0)
        whole = not talk.request.json.get("stream", False)
        await talk.head(content_type="application/json" if whole else "text/event-stream")
        for index in range(PIECES):
            chunk = piece(index).encode() if whole else chat(piece(index))
            await talk.chunk(chunk)
            self.taken[mine] += len(chunk)
        if not whole:
            await talk.chunk(chat(None, "stop") + DONE)
        await talk.end()

    async def held_back(self, count: int) -> None:
        """Return when no call takes any more, and none is at its end."""
        await eventually(lambda: len(self.taken) == count and all(self.taken), "all began", 60)
        while True:
            settled = list(self.taken)
            # All that take part are in this loop: what did not move by then has stopped.
            await turns(500)
            if self.taken == settled:
                break
        assert max(settled) < TOTAL * 0.75, "the provider was never held back"


@pytest.fixture
async def provider() -> Provider:
    return Provider()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> FastForward:
    return FastForward(monkeypatch)


@pytest.fixture
async def router(provider: Provider, clock: FastForward) -> AsyncIterator[RunningRouter]:
    async with (
        ScriptedUpstream(provider).serving() as upstream,
        running_router(external(upstream.url), settings=SETTINGS) as running,
    ):
        yield running
        await running.idle()


#: Route, request, and what makes of the body what the provider said.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "contract stream": (OPERATIONS, chat_operation(stream=True)),
    "OpenAI stream": (CHAT, {"model": "llm", "stream": True}),
    "OpenAI, finite and long": (CHAT, {"model": "llm"}),
}


def said(name: str, raw: bytes) -> bytes:
    """The text of an answer, in order."""
    match name:
        case "contract stream":
            deltas = [data["text"] for kind, data in records(raw) if kind == "delta"]
            assert records(raw)[-1][0] == "completed"
            return "".join(deltas).encode()
        case "OpenAI stream":
            *events, last = raw.removesuffix(b"\n\n").split(b"\n\n")
            assert last == b"data: [DONE]"
            found = [json.loads(event[len(b"data: ") :]) for event in events]
            return "".join(
                event["choices"][0]["delta"]["content"] or "" for event in found
            ).encode()
        case _:
            return raw


def dechunked(raw: bytes) -> bytes:
    """The body of chunks; fails unless it ends cleanly."""
    body, at = bytearray(), 0
    while True:
        end = raw.index(b"\r\n", at)
        size = int(raw[at:end], 16)
        if size == 0:
            assert raw[end:] == b"\r\n\r\n"
            return bytes(body)
        body += raw[end + 2 : end + 2 + size]
        at = end + size + 4


@pytest.mark.parametrize("name", CALLS)
async def test_it_reads_on_and_gets_all_of_it_in_order(
    router: RunningRouter, provider: Provider, clock: FastForward, name: str
) -> None:
    path, body = CALLS[name]
    asked = json.dumps(body).encode()
    async with calling(router.port) as caller:
        await caller.send(post(path, asked).replace(b"host: x", b"host: x\r\nconnection: close"))
        await caller.reader.readuntil(b"\r\n\r\n")
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await provider.held_back(1)
        taken = list(provider.taken)
        await clock.by(3 * SHORT)
        assert provider.taken == taken
        assert router.router.admission.in_flight == 1
        assert len(router.router.sessions) == 1
        caller.writer.transport.resume_reading()  # type: ignore[attr-defined]
        raw = await caller.closed(60)
    assert said(name, dechunked(raw)) == b"".join(piece(i).encode() for i in range(PIECES))


@pytest.mark.parametrize("name", CALLS)
async def test_it_costs_less_than_a_megabyte(
    router: RunningRouter, provider: Provider, name: str
) -> None:
    """Of everything that Python holds: the test's own provider too."""
    callers = 6
    path, body = CALLS[name]
    asked = json.dumps(body).encode()
    async with AsyncExitStack() as stack:
        # One that sets up what is set up once.
        first = await stack.enter_async_context(calling(router.port))
        await first.send(post(path, asked))
        first.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await provider.held_back(1)
        gc.collect()
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for _ in range(callers):
            caller = await stack.enter_async_context(calling(router.port))
            caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await caller.send(post(path, asked))
        await provider.held_back(1 + callers)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        assert held / callers < 1_000_000
        assert router.router.admission.in_flight == 1 + callers


async def test_a_finite_answer_of_ours_stays_accounted_until_it_is_read(
    router: RunningRouter, clock: FastForward
) -> None:
    """An aggregated text is in the budget while its caller does not read it."""
    asked = json.dumps(chat_operation()).encode()
    async with calling(router.port) as caller:
        await caller.send(post(OPERATIONS, asked))
        head = await caller.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
        # The provider is done and its permit is back; the text is held.
        await clock.by(3 * SHORT)
        assert router.router.admission.in_flight == 0
        assert len(router.router.sessions) == 1
        assert router.router.budget.held > TOTAL
        caller.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await router.idle()
