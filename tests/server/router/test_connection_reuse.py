"""10,000 calls at an engine that closes connections as llama.cpp's server does; none is lost.

It closes a connection that was idle for five seconds, and any after its 100th answer, without
saying so before; and a FIN takes its time. A router that used such a connection once more would
lose a call and have to say `unknown` of it. Both ends are written for speed: what is measured is
the router between them.
"""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest

from pumas_server.router import workers
from support.calls import CALLS, Framing, raw_answer
from support.eventually import eventually
from support.fast_forward import FastForward
from support.routers import RunningRouter, external, running_router

CALLS_IN_ALL = 10_000
AT_ONCE = 16
SECONDS = 40

ENGINE_IDLE_SECONDS = 5
ENGINE_USES = 100
FIN_SECONDS = 0.5
"""How long before its end is seen the engine has done with a connection."""

#: After how many calls of each all callers rest, and for how long: just below the two seconds for
#: which the router keeps a connection, and while the engine's closing is not seen yet. That time is
#: not waited for: the clock of router and engine is set ahead.
RESTS = {150: 1.98, 400: ENGINE_IDLE_SECONDS - FIN_SECONDS / 2}

_CALL = next(call for call in CALLS if call.capability == "text_embedding" and call.operation)
_ANSWER = b"".join(raw_answer(_CALL, Framing.LENGTH))
_MODELS = b'{"data":[{"id":"served"}]}'
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Engine(asyncio.Protocol):
    """One connection of the engine."""

    posts = 0
    uses: list[int]
    """Of every connection that ended, its POSTs."""

    def __init__(self, uses: list[int]) -> None:
        self.uses = uses
        self._held = b""
        self._done_with = False
        self._ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_after(None)
        self.uses.append(self.posts)

    def data_received(self, data: bytes) -> None:
        if self._done_with:
            return
        self._end_after(None)
        self._held += data
        head, end, body = self._held.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not end or (length and len(body) < int(length[1])):
            return
        self._held = b""
        if head.startswith(b"GET"):
            answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(_MODELS), _MODELS)
            self._transport.write(answer)
            self._transport.close()
            return
        self.posts += 1
        self._transport.write(_ANSWER)
        self._end_after(0 if self.posts == ENGINE_USES else ENGINE_IDLE_SECONDS - FIN_SECONDS)

    def _end_after(self, seconds: float | None) -> None:
        if self._ending is not None:
            self._ending.cancel()
        loop = asyncio.get_running_loop()
        self._ending = None if seconds is None else loop.call_later(seconds, self._end)

    def _end(self) -> None:
        self._done_with = True
        self._ending = asyncio.get_running_loop().call_later(FIN_SECONDS, self._transport.close)


async def test_no_call_of_10_000_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    # The engine is asked once what it is: a busy machine must not make it silent.
    monkeypatch.setattr(workers, "EXTERNAL_SECONDS", 3600)
    uses: list[int] = []
    loop = asyncio.get_running_loop()
    engine = await loop.create_server(lambda: Engine(uses), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{engine.sockets[0].getsockname()[1]}"
    async with engine, running_router(external(url, "embed", "feature-extraction")) as running:
        started = time.process_time()
        rest = Rest(FastForward(monkeypatch))
        callers = [caller(running, CALLS_IN_ALL // AT_ONCE, rest) for _ in range(AT_ONCE)]
        lost = [line for lines in await asyncio.gather(*callers) for line in lines]
        assert lost == []
        # What it takes where nobody else is at work: the processor's time, and the rests.
        assert time.process_time() - started + sum(RESTS.values()) < SECONDS
        await running.idle()
        _, _, metrics = await running.get("/metrics")
        succeeded = 'pumas_operations_total{capability="text_embedding",code="ok",outcome='
        counted = [line for line in metrics.decode().splitlines() if "operations_total{" in line]
        assert [(line.startswith(succeeded), line.split()[-1]) for line in counted] == [
            (True, f"{CALLS_IN_ALL}.0")
        ]
    await eventually(lambda: sum(uses) == CALLS_IN_ALL, "every connection ended")
    # They were reused, and the engine's own limit was never met.
    assert max(uses) == 90


class Rest:
    """Where all callers meet, and time passes."""

    def __init__(self, clock: FastForward) -> None:
        self._clock = clock
        self._meeting = asyncio.Barrier(AT_ONCE)

    async def of(self, seconds: float) -> None:
        if await self._meeting.wait() == 0:
            await self._clock.by(seconds)
        await self._meeting.wait()


async def caller(running: RunningRouter, calls: int, rest: Rest) -> list[bytes]:
    """One caller on one connection; what it got instead of a result."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    body = _CALL.body("x")
    request = b"POST /v1/model-operations HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (
        len(body),
        body,
    )
    lost = []
    for number in range(calls):
        if number in RESTS:
            await rest.of(RESTS[number])
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        assert length is not None
        answer = await reader.readexactly(int(length[1]))
        if not head.startswith(b"HTTP/1.1 200 ") or json.loads(answer)["result"] != _CALL.result:
            lost.append(answer)
    writer.close()
    await writer.wait_closed()
    return lost
