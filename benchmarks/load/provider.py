"""A scripted provider for measuring routers: it answers at once, out of prepared bytes.

    python provider.py PORT

`/v1/models` tells of a model `m` that chats and sees; `/v1/chat/completions` answers a
small completion, or with `stream: true` EVENTS events at RATE a second (`max_tokens` and `top_p`
of the body say how many and how fast), each with the time at which it was sent; `/v1/embeddings`
has 128 vectors of 1,024, `/v1/rerank` 100 scores. One process, one core, asyncio protocols alone.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import cast

import uvloop

WIDTH, INPUTS, DOCUMENTS = 1024, 128, 100

_ARCHITECTURE = {"input_modalities": ["text", "image"], "output_modalities": ["text"]}
_MODELS = {
    "object": "list",
    "data": [{"id": "m", "object": "model", "owned_by": "llamacpp", "architecture": _ARCHITECTURE}],
}
_MESSAGE = {"role": "assistant", "content": "The quick brown fox jumps over the lazy dog. " * 4}
_COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": _MESSAGE, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 40, "total_tokens": 50},
}


def answer(body: bytes, kind: str = "application/json") -> bytes:
    """A whole HTTP answer."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def build_embeddings() -> bytes:
    """128 vectors of 1,024 numbers, as long as real ones are written."""
    chance = random.Random(1)
    rows = [
        {
            "object": "embedding",
            "index": index,
            "embedding": [chance.uniform(-0.1, 0.1) for _ in range(WIDTH)],
        }
        for index in range(INPUTS)
    ]
    return json.dumps({"object": "list", "model": "m", "data": rows}).encode()


def build_ranking() -> bytes:
    """100 scores."""
    results = [{"index": n, "relevance_score": 1 / (n + 1)} for n in range(DOCUMENTS)]
    return json.dumps({"model": "m", "results": results, "usage": {"prompt_tokens": 9}}).encode()


#: A finite answer of contract operations comes as a stream, all of it at once.
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n'
_LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
_AT_ONCE = answer(_EVENT % _MESSAGE["content"].encode() + _LAST, "text/event-stream")
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
_FINITE = {
    b"/v1/models": answer(json.dumps(_MODELS).encode()),
    b"/v1/chat/completions": answer(json.dumps(_COMPLETION).encode()),
    b"/v1/embeddings": answer(build_embeddings()),
    b"/v1/rerank": answer(build_ranking()),
}


class Provider(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast("asyncio.Transport", transport)
        self._held = bytearray()

    def data_received(self, data: bytes) -> None:
        """See asyncio. Requests of one connection come one after another."""
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._held[:end])
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._held) < end + 4 + length:
                return
            body = bytes(self._held[end + 4 : end + 4 + length])
            del self._held[: end + 4 + length]
            self._answer(head.split(b" ", 2)[1], body)

    def _answer(self, path: bytes, body: bytes) -> None:
        if b'"stream": true' not in body and b'"stream":true' not in body:
            self._transport.write(_FINITE[path])
            return
        asked = json.loads(body)
        events = asked.get("max_tokens")
        if not events:
            self._transport.write(_AT_ONCE)
            return
        rate = (asked.get("top_p") or 1.0) * 100
        self._transport.write(_STREAM_HEAD)
        loop = asyncio.get_running_loop()
        # Spread: streams that tick together would measure a queue.
        loop.call_later(random.random() / rate, self._tick, events, 1 / rate)

    def _tick(self, left: int, pause: float) -> None:
        if self._transport.is_closing():
            return
        event = _EVENT % b"%.6f" % time.monotonic()
        if left > 1:
            asyncio.get_running_loop().call_later(pause, self._tick, left - 1, pause)
            self._chunk(event)
        else:
            self._chunk(event + _LAST)
            self._transport.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))


async def main(port: int) -> None:
    """Serve for ever."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Provider, "127.0.0.1", port, backlog=8192)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
