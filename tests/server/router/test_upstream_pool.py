"""The pool, on real sockets, plain and with TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import pytest
import trustme

from pumas_server.router import upstream_pool
from pumas_server.router.origin import Origin
from pumas_server.router.upstream_answer import Broken
from pumas_server.router.upstream_pool import MAX_USES, ConnectFailed, UpstreamPool
from support.eventually import eventually
from support.worker import free_ports

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class Server:
    """Answers every request alike, and counts connections."""

    def __init__(self) -> None:
        self.connections = 0
        self.open = 0
        self.port = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Server, UpstreamPool]]:
    served = Server()
    pool = UpstreamPool(connect_seconds=5)
    async with await asyncio.start_server(served.talk, "127.0.0.1", 0, ssl=tls) as server:
        served.port = server.sockets[0].getsockname()[1]
        try:
            yield served, pool
        finally:
            pool.close()
            await eventually(lambda: served.open == 0, "every connection is closed")


async def call(pool: UpstreamPool, origin: Origin) -> None:
    connection = await pool.take(origin)
    answer = connection.ask(b"POST / HTTP/1.1\r\n\r\n", b"")
    await answer.headed()
    assert await answer.read() == b"{}"
    pool.give_back(connection)


async def test_a_connection_is_used_again_and_not_for_ever() -> None:
    async with serving() as (served, pool):
        origin = Origin("127.0.0.1", served.port, tls=False)
        for _ in range(MAX_USES):
            await call(pool, origin)
        assert served.connections == 1
        await call(pool, origin)
        assert served.connections == 2
        await eventually(lambda: served.open == 1, "the used one is closed")


async def test_the_one_that_rested_longest_is_taken() -> None:
    async with serving() as (served, pool):
        origin = Origin("127.0.0.1", served.port, tls=False)
        both = [await pool.take(origin) for _ in range(2)]
        for connection in both:
            pool.give_back(connection)
        taken = [await pool.take(origin) for _ in range(2)]
        assert taken == both
        for connection in taken:
            pool.give_back(connection)


async def test_what_rests_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_pool, "IDLE_SECONDS", 0.1)
    async with serving() as (served, pool):
        origin = Origin("127.0.0.1", served.port, tls=False)
        for _ in range(2):
            await call(pool, origin)
            await eventually(lambda: served.open == 0, "it is closed")
            assert pool._idle == {} and pool._all == {}
        assert served.connections == 2


async def test_nobody_listens() -> None:
    pool = UpstreamPool(connect_seconds=5)
    with pytest.raises(ConnectFailed):
        await pool.take(Origin("127.0.0.1", free_ports(1)[0], tls=False))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 64 + ".invalid", "a..b"])
async def test_a_name_of_nobody(host: str) -> None:
    pool = UpstreamPool(connect_seconds=5)
    with pytest.raises(ConnectFailed):
        await pool.take(Origin(host, 80, tls=False))


async def test_an_address_waits_for_no_names_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent name server holds every thread that looks names up."""
    loop = asyncio.get_running_loop()

    async def never(*_: object, **__: object) -> None:
        await loop.create_future()

    async with serving() as (served, pool), asyncio.timeout(5):
        monkeypatch.setattr(loop, "getaddrinfo", never)
        await call(pool, Origin("127.0.0.1", served.port, tls=False))


async def test_an_address_that_is_silent_does_not_hold_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (served, pool):
        with silent("127.0.0.2", served.port):
            loop = asyncio.get_running_loop()

            async def find(*_: object, **__: object) -> list[tuple[object, ...]]:
                kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
                return [(*kind, (host, served.port)) for host in ("127.0.0.2", "127.0.0.1")]

            monkeypatch.setattr(loop, "getaddrinfo", find)
            began = time.monotonic()
            await call(pool, Origin("models.example", served.port, tls=False))
            assert time.monotonic() - began < 4
    assert served.connections == 1


@contextmanager
def silent(host: str, port: int) -> Iterator[None]:
    """An address at which nobody is refused and nobody is answered: its queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(2):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex((host, port))
        yield


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def served_by(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def trusting(monkeypatch: pytest.MonkeyPatch, authority: trustme.CA) -> None:
    context = upstream_pool._tls.__wrapped__()
    authority.configure_trust(context)
    monkeypatch.setattr(upstream_pool, "_tls", lambda: context)


async def test_a_server_that_proves_who_it_is(
    monkeypatch: pytest.MonkeyPatch, authority: trustme.CA
) -> None:
    trusting(monkeypatch, authority)
    async with serving(served_by(authority, "127.0.0.1")) as (served, pool):
        for _ in range(3):
            await call(pool, Origin("127.0.0.1", served.port, tls=True))
        assert served.connections == 1


async def test_a_server_that_proves_to_be_another(
    monkeypatch: pytest.MonkeyPatch, authority: trustme.CA
) -> None:
    trusting(monkeypatch, authority)
    async with serving(served_by(authority, "models.example")) as (served, pool):
        with pytest.raises(ConnectFailed):
            await pool.take(Origin("127.0.0.1", served.port, tls=True))


async def test_a_server_that_nobody_vouches_for(authority: trustme.CA) -> None:
    async with serving(served_by(authority, "127.0.0.1")) as (served, pool):
        with pytest.raises(ConnectFailed):
            await pool.take(Origin("127.0.0.1", served.port, tls=True))


@pytest.mark.parametrize("cut", [False, True])
async def test_a_body_that_ends_with_its_connection(
    monkeypatch: pytest.MonkeyPatch, authority: trustme.CA, cut: bool
) -> None:
    """Whoever is on the way can end a connection; only the provider can say that it did."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await writer.drain()
        if cut:
            writer.transport.abort()
        writer.close()

    trusting(monkeypatch, authority)
    pool = UpstreamPool(connect_seconds=5)
    tls = served_by(authority, "127.0.0.1")
    async with await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await pool.take(Origin("127.0.0.1", port, tls=True))
        answer = connection.ask(b"POST / HTTP/1.1\r\n\r\n", b"")
        assert await answer.read() == b"hello"
        if cut:
            with pytest.raises(Broken):
                await answer.read()
        else:
            assert await answer.read() == b""
        pool.give_back(connection)


async def test_a_server_without_tls() -> None:
    async with serving() as (served, pool):
        with pytest.raises(ConnectFailed):
            await pool.take(Origin("127.0.0.1", served.port, tls=True))
