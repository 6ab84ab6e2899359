"""A scripted provider on a real socket: it reads requests truly and answers as the test says.

A script is an async function of a `Conversation`. It can write any bytes, cut, reset, or stall, and
wait for the caller to leave. Every request that reached it is kept.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

MODELS = {"object": "list", "data": [{"id": "served", "object": "model"}]}


@dataclass
class Seen:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Conversation:
    """One POST in progress, from the provider's side."""

    request: Seen
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    keep: bool = True

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(
        self, status: int = 200, content_type: str = "text/event-stream", **headers: str
    ) -> None:
        """A chunked answer's header."""
        lines = [
            f"HTTP/1.1 {status} X",
            f"content-type: {content_type}",
            "transfer-encoding: chunked",
        ]
        lines += [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def whole(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        await self.send(
            f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
            + body
        )

    async def stream(self, *events: bytes) -> None:
        """A whole, clean event stream."""
        await self.head()
        for event in events:
            await self.chunk(event)
        await self.end()

    def cut(self) -> None:
        """End the connection with FIN."""
        self.keep = False
        self.writer.close()

    def reset(self) -> None:
        """End the connection with RST."""
        self.keep = False
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def caller_left(self) -> None:
        """Return when the other side closes the connection."""
        self.keep = False
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            return


Script = Callable[[Conversation], Awaitable[None]]


def event(data: Any) -> bytes:
    payload = data if isinstance(data, str) else json.dumps(data)
    return f"data: {payload}\n\n".encode()


def chat(content: str | None, finish: str | None = None, **delta: Any) -> bytes:
    members = {"content": content, **delta}
    return event({"choices": [{"index": 0, "delta": members, "finish_reason": finish}]})


def text(piece: str, finish: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": piece, "finish_reason": finish}]})


DONE = event("[DONE]")
HELLO = (chat(None, role="assistant"), chat("hel"), chat("lo"), chat(None, "stop"), DONE)


async def say_hello(talk: Conversation) -> None:
    """A coherent chat stream."""
    await talk.stream(*HELLO)


@dataclass
class ScriptedUpstream:
    """See the module. `script` may be replaced between requests."""

    script: Script = say_hello
    models: Any = field(default_factory=lambda: MODELS)
    reads_bodies: bool = True
    """Without it a script gets a request whose body is still on its way."""
    listing: Script | None = None
    """What answers GET instead of the list of `models`."""
    seen: list[Seen] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    """POSTs by connection, in the order in which the connections came."""
    max_uses: int = 1_000_000
    """POSTs after which a connection is closed."""
    asked: int = 0
    """GETs that came."""
    port: int = 0
    open_connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ScriptedUpstream]:
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._talk(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", self.port, limit=2**26)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tuple(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_connections += 1
        connection = len(self.uses)
        self.uses.append(0)
        try:
            while True:
                request = await _read_request(reader, lambda: self.reads_bodies)
                if request is None:
                    return
                if request.method == "GET":
                    self.asked += 1
                    if self.listing is not None:
                        talk = Conversation(request, reader, writer)
                        await self.listing(talk)
                        if not talk.keep:
                            return
                        continue
                    status = 200 if request.path == "/v1/models" else 404
                    body = json.dumps(self.models).encode()
                    await Conversation(request, reader, writer).whole(status, body)
                    continue
                self.seen.append(request)
                self.uses[connection] += 1
                talk = Conversation(request, reader, writer)
                await self.script(talk)
                if not talk.keep or self.uses[connection] >= self.max_uses:
                    return
        except ConnectionError:
            return
        finally:
            self.open_connections -= 1
            writer.close()


async def _read_request(reader: asyncio.StreamReader, with_body: Callable[[], bool]) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
    length = int(headers.get("content-length", "0")) if with_body() else 0
    body = await reader.readexactly(length)
    return Seen(method, path, headers, body)
