"""An HTTP server on the loopback that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """By their names in small letters."""
    body: bytes


@dataclass
class Loopback:
    """A server that runs."""

    port: int
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[Loopback]:
    """The handler answers every request while the block lasts."""

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        query = dict(request.query)
        headers = {name.lower(): value for name, value in request.headers.items()}
        server.asked.append(Asked(request.method, request.path, query, headers, body))
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = Loopback(runner.addresses[0][1])
    try:
        yield server
    finally:
        await runner.cleanup()


def say(body: bytes, status: int = 200, encoding: str = "identity") -> Handler:
    """A whole answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers={"Content-Encoding": encoding})

    return answer


def redirect(status: int, there: bytes) -> Handler:
    """An answer that points elsewhere, where the answer is this."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/elsewhere":
            return web.Response(body=there)
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    return answer


async def hang(request: web.Request) -> web.StreamResponse:
    """No answer, and the connection stays."""
    await asyncio.Event().wait()
    return web.Response()


def hang_after(body: bytes) -> Handler:
    """A head and the beginning of a body, and the connection stays."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(body)
        return await hang(request)

    return answer


async def cut(request: web.Request) -> web.StreamResponse:
    """No answer: the connection breaks."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def cut_after(body: bytes) -> Handler:
    """The connection breaks one byte before the end of the body."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(body) + 1)})
        await response.prepare(request)
        await response.write(body)
        return await cut(request)

    return answer


def speak(raw: bytes) -> Handler:
    """These bytes, which need be no HTTP, and the end of the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(raw)
        request.transport.close()
        return web.Response()

    return answer
