"""The scripted provider, which breaks an answer where the request says so, and counts.

    python faulty_provider.py PORT

A request whose text holds `call-NUMBER WORD` is counted by its number, and answered as the word
says: `well`, or one of the faults below. `GET /counts` tells how many such requests came, and how
many came a second time. All else is as `provider.py` has it.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import sys
from collections.abc import Callable

import uvloop
from provider import Provider, answer

_CALL = re.compile(rb"call-(\d+) (\w+)")
_PAUSE_SECONDS = 0.05
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
_STREAM = b"text/event-stream"
_JSON = b"application/json"
_GARBAGE = {_STREAM: b'data: {"choices":[{"index"\n\ndata: ]]\n\n', _JSON: b'{"choices":[{"index"'}
_REFUSAL = json.dumps({"error": {"message": "out of memory", "code": "oom"}}).encode()


class Counts:
    """What came."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self.received = 0

    def count(self, number: int) -> None:
        """One request with a number."""
        self.received += 1
        self._seen.add(number)

    def told(self) -> bytes:
        """As an answer."""
        repeated = self.received - len(self._seen)
        return answer(json.dumps({"received": self.received, "repeated": repeated}).encode())


class FaultyProvider(Provider):
    """One connection."""

    counts = Counts()

    def _answer(self, path: bytes, body: bytes) -> None:
        if path == b"/counts":
            self._transport.write(self.counts.told())
            return
        found = _CALL.search(body)
        word = b"well"
        if found is not None:
            self.counts.count(int(found[1]))
            word = found[2]
        if word == b"well":
            super()._answer(path, body)
            return
        streamed = b'"stream": true' in body or b'"stream":true' in body
        self._break(word.decode(), _STREAM if streamed else _JSON)

    def _break(self, word: str, kind: bytes) -> None:
        match word:
            case "cut":
                self._transport.close()
            case "reset":
                self._reset()
            case "half" if kind == _STREAM:
                self._begin_chunks(kind, _EVENT)
                self._later(self._transport.close)
            case "half":
                head = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: 1000\r\n\r\n"
                self._transport.write(head % kind + b'{"choices":')
                self._later(self._reset)
            case "framing":
                self._begin_chunks(kind, _EVENT)
                self._later(lambda: self._transport.write(b"no size\r\n"))
            case "refuse":
                self._transport.write(
                    b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\n"
                    b"content-length: %d\r\n\r\n%s" % (len(_REFUSAL), _REFUSAL)
                )
            case "garbage":
                self._transport.write(answer(_GARBAGE[kind], kind.decode()))
            case _:
                raise ValueError(word)

    def _begin_chunks(self, kind: bytes, first: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n"
        self._transport.write(head % kind)
        self._chunk(first)

    def _later(self, what: Callable[[], None]) -> None:
        # Not in one segment with what came before: that would be another fault.
        asyncio.get_running_loop().call_later(_PAUSE_SECONDS, what)

    def _reset(self) -> None:
        connection = self._transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


async def main(port: int) -> None:
    """Serve for ever."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(FaultyProvider, "127.0.0.1", port, backlog=8192)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
