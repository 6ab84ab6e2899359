"""HTTP questions to a container, in as few imports as starting quickly allows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

BODY_LIMIT = 65_536

#: Not listening, too slow, or no HTTP: to a probe each of them is an answer.
NO_ANSWER = (OSError, EOFError, TimeoutError, ValueError)


async def answers(host: str, port: int, path: str, timeout_seconds: float) -> bool:
    """Whether `GET path` gives a status from 200 to 399 in time, which is what Kubernetes asks."""
    try:
        async with asyncio.timeout(timeout_seconds), _ask(host, port, path) as (status, _):
            return 200 <= status < 400
    except NO_ANSWER:
        return False


async def fetch(host: str, port: int, path: str, timeout_seconds: float) -> bytes | None:
    """The body of `GET path`; None without a 200, in time and of at most 64 KiB."""
    try:
        async with asyncio.timeout(timeout_seconds), _ask(host, port, path) as (status, reader):
            if status != HTTPStatus.OK:
                return None
            await reader.readuntil(b"\r\n\r\n")
            body = b""
            while chunk := await reader.read(BODY_LIMIT):
                body += chunk
                if len(body) > BODY_LIMIT:
                    return None
            return body
    except (*NO_ANSWER, asyncio.LimitOverrunError):
        return None


@asynccontextmanager
async def _ask(host: str, port: int, path: str) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
    reader, writer = await asyncio.open_connection(host, port, limit=BODY_LIMIT)
    try:
        request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        version, _, rest = (await reader.readline()).partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise ValueError("the answer is no HTTP")
        yield int(rest[:3]), reader
    finally:
        writer.close()
