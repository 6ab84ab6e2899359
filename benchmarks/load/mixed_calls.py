"""The mix of `mix.py` at a steady rate, every ending held against the one that is due.

    python mixed_calls.py URL FIRST RATE SECONDS

FIRST is the number of the first call: no two calls of a provider's life have the same. Prints the
`Account` as one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from urllib.parse import urlsplit

import aiohttp
import uvloop
from mix import (
    BROKEN,
    DOCUMENTS,
    EVENTS,
    INPUTS,
    LEFT,
    TOO_LONG,
    Account,
    Kind,
    Manner,
    Planned,
    plan,
)

from support.raw_caller import calling, post

#: Of what ended otherwise, so many are told.
_TOLD = 20


class Mix:
    """One run."""

    def __init__(self, url: str, client: aiohttp.ClientSession) -> None:
        self._url = url
        port = urlsplit(url).port
        assert port is not None
        self._port = port
        self._client = client
        self.account = Account()

    async def call(self, number: int) -> None:
        """Make the call of this number, and account for it."""
        planned = plan(number)
        account = self.account
        account.calls += 1
        account.faults += bool(planned.fault)
        account.admitted += planned.ending.admitted
        if planned.ending.counted is not None:
            account.counted[" ".join((planned.path, *planned.ending.counted))] += 1
        try:
            told = await self._make(planned)
        except (aiohttp.ClientError, OSError, EOFError, TimeoutError) as error:
            told = repr(error)
        if told != planned.ending.told:
            account.wrong += 1
            what = f"{planned.kind.name} {planned.path} {planned.fault or 'well'}"
            if len(account.told) < _TOLD:
                account.told.append(f"{number} {what}: {told}, not {planned.ending.told}")

    async def _make(self, planned: Planned) -> str:
        match planned.manner:
            case Manner.WELL:
                return await self._read(planned)
            case Manner.LEAVES:
                return await self._leave(planned)
            case Manner.HALF:
                half = planned.body[: len(planned.body) // 2]
                async with calling(self._port) as caller:
                    await caller.send(post(planned.path, half, announced=len(planned.body)))
                    # Not reset: what was sent is to arrive.
                    caller.writer.close()
                    await caller.writer.wait_closed()
                return LEFT
            case Manner.TOO_LONG:
                async with calling(self._port) as caller:
                    await caller.send(post(planned.path, b"{", announced=TOO_LONG))
                    answer = await caller.answer(60)
                outcome = answer.headers["x-pumas-outcome"]
                return f"{answer.status} {answer.json['error']['code']} {outcome}"

    async def _read(self, planned: Planned) -> str:
        method = "GET" if planned.kind is Kind.DISCOVERY else "POST"
        url = self._url + planned.path
        async with self._client.request(method, url, data=planned.body or None) as answer:
            try:
                raw = await answer.read()
            except aiohttp.ClientPayloadError:
                return BROKEN
            if answer.status != 200:
                code = json.loads(raw)["error"]["code"]
                return f"{answer.status} {code} {answer.headers['x-pumas-outcome']}"
        return told_of_success(planned, raw)

    async def _leave(self, planned: Planned) -> str:
        """Read two events, then leave with the stream open."""
        async with self._client.post(self._url + planned.path, data=planned.body) as answer:
            seen = b""
            while seen.count(b'"content":') + seen.count(b"event: delta") < 2:
                piece = await answer.content.readany()
                if not piece:
                    return "ended before its caller left"
                seen += piece
            # A body that was not read to its end takes the connection with it.
            answer.close()
        return LEFT


def told_of_success(planned: Planned, raw: bytes) -> str:
    """What an answer of 200 tells: `200 ok` only if all is there that has to be."""
    if planned.kind is Kind.CONTRACT_STREAM:
        *records, _ = raw.decode().split("\n\n")
        last = json.loads(records[-1].split("data: ", 1)[1])
        if last["kind"] == "failed":
            return f"200 {last['error']['code']} {last['error']['outcome']}"
        return "200 ok" if _is_whole(planned, raw) else "200 not whole"
    if planned.fault == "garbage":
        return "200 ok"
    return "200 ok" if _is_whole(planned, raw) else "200 not whole"


def _is_whole(planned: Planned, raw: bytes) -> bool:
    match planned.kind:
        case Kind.FORWARDED:
            return bool(json.loads(raw)["choices"][0]["message"]["content"])
        case Kind.FORWARDED_STREAM:
            # The last of them are the terminal choice and the end.
            return raw.count(b"data: ") == EVENTS + 2 and raw.endswith(b"data: [DONE]\n\n")
        case Kind.CONTRACT:
            return bool(json.loads(raw)["result"]["text"])
        case Kind.CONTRACT_STREAM:
            return (raw.count(b"event: delta"), raw.count(b"event: completed")) == (EVENTS, 1)
        case Kind.EMBEDDINGS:
            return raw.count(b"[") == INPUTS + 1
        case Kind.RANKING:
            return raw.count(b'"relevance_score"') == DOCUMENTS
        case Kind.DISCOVERY:
            return bool(raw)


async def run(url: str, first: int, rate: float, seconds: float) -> None:
    """Make the calls, each when it is due, whatever became of those before it."""
    began = time.monotonic()
    running: set[asyncio.Task[None]] = set()
    faults: list[BaseException] = []

    def over(task: asyncio.Task[None]) -> None:
        running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            faults.append(error)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        mix = Mix(url, client)
        for number in range(int(rate * seconds)):
            wait = began + number / rate - time.monotonic()
            mix.account.latest_seconds = max(mix.account.latest_seconds, -wait)
            await asyncio.sleep(max(0.0, wait))
            task = asyncio.create_task(mix.call(first + number))
            running.add(task)
            task.add_done_callback(over)
        mix.account.seconds = time.monotonic() - began
        while running:
            await asyncio.wait(running)
    if faults:
        raise BaseExceptionGroup("calls whose ending could not be read", faults[:_TOLD])
    print(json.dumps(vars(mix.account)))


if __name__ == "__main__":
    url, first, rate, seconds = sys.argv[1:]
    uvloop.run(run(url, int(first), float(rate), float(seconds)))
