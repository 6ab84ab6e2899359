"""A caller that writes bytes to a socket as it likes, and reads what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What a connection ended with."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class RawCaller:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, seconds: float = 10) -> RawAnswer:
        """The next answer; it has to have a length."""
        async with asyncio.timeout(seconds):
            head = await self.reader.readuntil(b"\r\n\r\n")
            line, *fields = head.decode().removesuffix("\r\n\r\n").split("\r\n")
            pairs = [field.split(": ", 1) for field in fields]
            headers = {name.lower(): value for name, value in pairs}
            body = await self.reader.readexactly(int(headers["content-length"]))
        return RawAnswer(int(line.split(" ")[1]), headers, body)

    async def closed(self, seconds: float = 10) -> bytes:
        """What still comes until the other side closes, in whatever way."""
        got = b""
        async with asyncio.timeout(seconds):
            with suppress(ConnectionError):
                while piece := await self.reader.read(65_536):
                    got += piece
        return got


@asynccontextmanager
async def calling(port: int) -> AsyncIterator[RawCaller]:
    """A connection while the block lasts; then it is reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
    try:
        yield RawCaller(reader, writer)
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


def post(path: str, body: bytes, *, announced: int | None = None) -> bytes:
    """A whole request, or with `announced` one that says another length."""
    length = len(body) if announced is None else announced
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n".encode() + body
