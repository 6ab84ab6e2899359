"""One HTTP exchange against servers that behave, misbehave, or do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pumas_server.worker.exchange import Answer, NoAnswer, exchange
from support.worker import free_ports


@asynccontextmanager
async def server(answer: bytes, *, hold: bool = False) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that sends `answer` to whatever comes; with `hold` it then keeps silent."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heard.append(await reader.read(65_536))
            writer.write(answer)
            if hold:
                await reader.read()
        except ConnectionError:
            pass  # the client has had enough
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], heard


async def ask(port: int, *, body: bytes = b"", seconds: float = 5) -> Answer:
    headers = {"Authorization": "Bearer k"}
    method = "POST" if body else "GET"
    return await exchange(
        "127.0.0.1", port, method, "/slots", headers=headers, body=body, seconds=seconds
    )


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}and more", Answer(200, b"{}")),
        (b"HTTP/1.0 503 Service Unavailable\r\n\r\nto the end", Answer(503, b"to the end")),
        (b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n", Answer(204, b"")),
    ],
)
async def test_complete_answers(sent: bytes, answer: Answer) -> None:
    async with server(sent) as (port, _):
        assert await ask(port) == answer


async def test_what_is_sent() -> None:
    async with server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (port, heard):
        await ask(port)
        await ask(port, body=b"{}")
    host = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer k\r\n".encode()
    assert heard == [
        b"GET /slots HTTP/1.0\r\n" + host + b"\r\n",
        b"POST /slots HTTP/1.0\r\n" + host + b"Content-Length: 2\r\n\r\n{}",
    ]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 many OK\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-server\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    ],
)
async def test_everything_else_is_no_answer(sent: bytes) -> None:
    async with server(sent) as (port, _):
        with pytest.raises(NoAnswer):
            await ask(port)


async def test_nobody_listens() -> None:
    with pytest.raises(NoAnswer, match="ConnectionRefusedError"):
        await ask(free_ports(1)[0])


async def test_the_deadline_is_for_the_whole_exchange() -> None:
    started = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{"
    async with server(started, hold=True) as (port, _):
        with pytest.raises(NoAnswer, match=r"within 0\.1 s"):
            await ask(port, seconds=0.1)
