"""Many streams at once, read by one light process, and what became of each event.

    python streams.py URL PATH MODEL STREAMS EVENTS RATE

Prints one JSON object: streams that ended as they should, events that came, the percentiles of how
long an event was on its way in milliseconds (its content is the time at which the provider sent
it), and the seconds of processor that this process used.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import cast
from urllib.parse import urlsplit

import uvloop

_SENT = re.compile(rb'"(?:content|text)": ?"(\d+\.\d+)"')
_RAMP_PER_SECOND = 250


def build_body(path: str, model: str, events: int, rate: float) -> bytes:
    """One request for a stream of so many events at that rate a second."""
    if path == "/v1/model-operations":
        options = {"kind": "text_generation", "max_tokens": events, "top_p": rate / 100}
        messages = [{"role": "user", "content": "hi"}]
        return json.dumps(
            {
                "contract_version": 1,
                "request_id": "load:1",
                "model": model,
                "capability": "chat_generation",
                "input": {"kind": "messages", "messages": messages},
                "output": "text",
                "options": options,
                "stream": True,
            }
        ).encode()
    return json.dumps(
        {
            "model": model,
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": events,
            "top_p": rate / 100,
            "stream": True,
        }
    ).encode()


class Stream(asyncio.Protocol):
    """One stream; `ended` is done when its connection is of no more use."""

    def __init__(self, request: bytes, on_their_way: list[float]) -> None:
        self._request = request
        self._on_their_way = on_their_way
        self._rest = b""
        self.events = 0
        self.whole = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        now = time.monotonic()
        data = self._rest + data
        last = 0
        for found in _SENT.finditer(data):
            self._on_their_way.append(now - float(found[1]))
            self.events += 1
            last = found.end()
        if b"\r\n0\r\n\r\n" in data:
            self.whole = True
            self._transport.close()
        # An event or the last chunk may be cut anywhere.
        self._rest = data[last:][-256:]

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if not self.ended.done():
            self.ended.set_result(None)


async def run(url: str, path: str, model: str, count: int, events: int, rate: float) -> None:
    """Open the streams, a quarter of a thousand a second, and wait for all."""
    place = urlsplit(url)
    body = build_body(path, model, events, rate)
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    on_their_way: list[float] = []
    loop = asyncio.get_running_loop()
    streams: list[Stream] = []
    began, used = time.monotonic(), time.process_time()
    for number in range(count):
        _, stream = await loop.create_connection(
            lambda: Stream(head.encode() + body, on_their_way), place.hostname, place.port
        )
        streams.append(stream)
        await asyncio.sleep(max(0.0, began + number / _RAMP_PER_SECOND - time.monotonic()))
    await asyncio.gather(*(stream.ended for stream in streams))
    seconds, used = time.monotonic() - began, time.process_time() - used
    on_their_way.sort()

    def percentile(share: float) -> float:
        if not on_their_way:
            return float("nan")
        return on_their_way[min(len(on_their_way) - 1, int(share * len(on_their_way)))] * 1000

    print(
        json.dumps(
            {
                "whole": sum(stream.whole for stream in streams),
                "events": sum(stream.events for stream in streams),
                "p50_ms": percentile(0.5),
                "p99_ms": percentile(0.99),
                "seconds": seconds,
                "processor_seconds": used,
            }
        )
    )


if __name__ == "__main__":
    url, path, model, *numbers = sys.argv[1:]
    count, events, rate = int(numbers[0]), int(numbers[1]), float(numbers[2])
    uvloop.run(run(url, path, model, count, events, rate))
