"""One HTTP exchange over its own connection, for control calls.

Not aiohttp: importing that doubles the time in which a pod with a small model becomes ready, and
a handful of short calls a minute, HTTP/1.0 each, needs nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

HEADER_LIMIT = 65_536
BODY_LIMIT = 16 * 1024 * 1024


class NoAnswer(Exception):
    """No complete answer: not connected, cut off, malformed, too long, or too late."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer."""

    status: int
    body: bytes


async def exchange(
    host: str,
    port: int,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    body: bytes = b"",
    seconds: float | None,
) -> Answer:
    """Ask once; `seconds` is the deadline of the whole exchange. Raises `NoAnswer` only."""
    lines = [f"{method} {path} HTTP/1.0", f"Host: {host}:{port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    request = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, port, limit=HEADER_LIMIT)
            try:
                writer.write(request)
                return await _read_answer(reader)
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise NoAnswer(f"no answer to {method} {path} within {seconds} s") from None
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise NoAnswer(f"no answer to {method} {path}: {type(error).__name__}") from error


async def _read_answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status_line, *fields = head.split("\r\n")
    version, _, rest = status_line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("not an HTTP/1 answer")
    length: int | None = None
    for field in fields:
        name, _, value = field.partition(":")
        match name.strip().lower():
            case "content-length":
                length = int(value)
            case "transfer-encoding":
                raise ValueError("a transfer encoding in an answer to HTTP/1.0")
    if length is not None and not 0 <= length <= BODY_LIMIT:
        raise ValueError("the answer is too long")
    body = await (reader.read(-1) if length is None else reader.readexactly(length))
    return Answer(int(rest[:3]), body)
