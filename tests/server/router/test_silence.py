"""Why an external server tells nothing: asked for real, each cause by its name, no address told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address

import aiohttp
import pytest

from pumas_server.router.silence import explain_silence
from support.worker import free_ports

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def ask(url: str) -> str:
    """What is said of a server that gives no list of models."""
    timeout = aiohttp.ClientTimeout(total=0.5)
    async with aiohttp.ClientSession(timeout=timeout) as client:
        with pytest.raises((aiohttp.ClientError, OSError, TimeoutError)) as caught:
            async with client.get(url) as answer:
                answer.raise_for_status()
    told = explain_silence(caught.value)
    assert not any(word in told for word in ("127.0.0.1", "nowhere", "://"))
    return told


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[str]:
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        done.set()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        await done.wait()


async def test_nobody_listens() -> None:
    told = await ask(f"http://127.0.0.1:{free_ports(1)[0]}")
    assert told == "the server does not answer: the connection is refused"


async def test_a_name_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def unknown(host: str, *rest: object, **named: object) -> object:
        try:
            ip_address(host)
        except ValueError:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
        return real(host, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    told = await ask("http://nowhere.invalid")
    assert told == "the server does not answer: its host's name is not known"


async def test_it_takes_the_call_and_says_nothing() -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with server(wait) as place:
        told = await ask(f"http://{place}")
    assert told == "the server does not answer: nothing comes in time"


async def test_it_closes_the_connection() -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        return

    async with server(close) as place:
        told = await ask(f"http://{place}")
    assert told == "the server does not answer: it closes the connection"


async def test_it_refuses() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")

    async with server(refuse) as place:
        assert await ask(f"http://{place}") == "its /v1/models answers 403"


async def test_it_speaks_another_language() -> None:
    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n\r\n")

    async with server(chatter) as place:
        told = await ask(f"http://{place}")
    assert told == "the server does not answer: what comes is no HTTP answer"


def test_what_is_no_list() -> None:
    assert explain_silence(ValueError("no JSON")) == "its /v1/models is no list of models"
