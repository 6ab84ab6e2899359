"""Probes: what counts as an answer, and that a probe always ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pumas_local.probe import BODY_LIMIT, answers, fetch

HOST = "127.0.0.1"


@asynccontextmanager
async def server(answer: bytes | None) -> AsyncIterator[int]:
    """A port where everybody gets `answer` and a close; None: neither."""
    release = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if answer is None:
            await release.wait()
        else:
            writer.write(answer)
        writer.close()

    listener = await asyncio.start_server(serve, HOST, 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        release.set()
        listener.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 302 Found\r\n\r\n", True),
        (b"HTTP/1.1 399\r\n\r\n", True),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", False),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1 abc\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
        (b"", False),
        (b"x" * 2 * BODY_LIMIT, False),
        (None, False),
    ],
)
async def test_what_counts_as_an_answer(answer: bytes | None, expected: bool) -> None:
    async with server(answer) as port:
        assert await answers(HOST, port, "/readyz", 0.3) is expected


async def test_a_closed_port_is_no_answer() -> None:
    async with server(b"") as port:
        pass
    assert not await answers(HOST, port, "/readyz", 5)
    assert await fetch(HOST, port, "/descriptor", 5) is None


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}", b"{}"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n" + b"x" * BODY_LIMIT, b"x" * BODY_LIMIT),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n" + b"x" * (BODY_LIMIT + 1), None),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n", None),
        (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 2 * BODY_LIMIT, None),
        (b"HTTP/1.1 404 Not Found\r\n\r\n{}", None),
        (None, None),
    ],
)
async def test_bodies(answer: bytes | None, body: bytes | None) -> None:
    async with server(answer) as port:
        assert await fetch(HOST, port, "/descriptor", 0.5) == body
