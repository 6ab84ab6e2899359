"""What goes upstream, as it is on the wire, and questions that admit nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest
import pytest_asyncio

from pumas_server.contract.errors import ContractError, Outcome
from pumas_server.router import upstream as upstream_module
from pumas_server.router.catalog_row import Identity, Target
from pumas_server.router.sessions import EndReason, SessionEnded, Sessions
from pumas_server.router.source import Endpoint
from pumas_server.router.upstream import Upstream, read_chunk
from pumas_server.router.upstream_pool import ConnectFailed
from support.eventually import eventually
from support.worker import free_ports

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@dataclass
class Wire:
    """A server that keeps what came, byte for byte."""

    answer: bytes = ANSWER
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    port: int = 0

    def target(self) -> Target:
        endpoint = Endpoint("e", f"http://127.0.0.1:{self.port}", None, True, "key")
        return Target(Identity("m", "hash", "e", "boot"), endpoint, 4)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            told = [v for n, _, v in map(_field, head.split(b"\r\n")) if n == b"content-length"]
            self.bodies.append(await reader.readexactly(int(told[0])))
            writer.write(self.answer)
            await reader.read()
        finally:
            writer.close()

    def fields(self, name: bytes) -> list[bytes]:
        """The values of a header field in the last request."""
        return [v.strip() for n, _, v in map(_field, self.heads[-1].split(b"\r\n")) if n == name]


def _field(line: bytes) -> tuple[bytes, bytes, bytes]:
    name, colon, value = line.partition(b":")
    return name.lower(), colon, value


@pytest_asyncio.fixture
async def wire() -> AsyncIterator[Wire]:
    made = Wire()
    server = await asyncio.start_server(made.talk, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Upstream]:
    made = Upstream(connect_seconds=2)
    yield made
    made.close()


FORM = "multipart/form-data; boundary=b"


@pytest.mark.parametrize(
    ("headers", "content_type"),
    [
        ({}, b"application/json"),
        ({"accept": "text/event-stream"}, b"application/json"),
        ({"content-type": FORM}, FORM.encode()),
        ({"content-type": "application/json; charset=utf-8"}, b"application/json; charset=utf-8"),
    ],
)
@pytest.mark.parametrize("size", [10, 100_000])
async def test_one_content_type_goes_upstream(
    wire: Wire, upstream: Upstream, headers: dict[str, str], content_type: bytes, size: int
) -> None:
    body = b"x" * size
    with Sessions().open() as session:
        call = await upstream.post(session, wire.target(), "/v1/x", body, headers, lambda: True)
        assert await read_chunk(session, call.answer) == b"{}"
        assert await read_chunk(session, call.answer) == b""
        call.close()
        assert session.admitted
    assert wire.fields(b"content-type") == [content_type]
    assert wire.fields(b"authorization") == [b"Bearer key"]
    assert wire.fields(b"accept-encoding") == [b"identity"]
    assert len(wire.fields(b"accept")) == ("accept" in headers)
    assert wire.fields(b"user-agent") == []
    assert wire.bodies == [body]


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_a_question_admits_nothing(wire: Wire, upstream: Upstream, size: int) -> None:
    """Its body may be as long as a call's."""
    body = b"x" * size
    with Sessions().open() as session:
        assert await upstream.ask(session, wire.target(), "/v1/x/check", body) == (200, b"{}")
        assert not session.admitted and session.outcome is Outcome.NOT_ADMITTED
    assert wire.heads[0].startswith(b"POST /v1/x/check HTTP/1.1\r\n")
    assert wire.fields(b"content-type") == [b"application/json"]
    assert wire.fields(b"authorization") == [b"Bearer key"]
    assert wire.bodies == [body]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 2",
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{}",
    ],
)
async def test_a_question_that_is_lost(
    wire: Wire, upstream: Upstream, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_module, "ASK_SECONDS", 0.1)
    wire.answer = answer
    with Sessions().open() as session:
        assert await upstream.ask(session, wire.target(), "/v1/x/check", b"{}") is None


async def test_a_redirect_is_not_followed(wire: Wire, upstream: Upstream) -> None:
    wire.answer = b"HTTP/1.1 307 X\r\nlocation: /v1/x\r\ncontent-length: 0\r\n\r\n"
    with Sessions().open() as session:
        assert await upstream.ask(session, wire.target(), "/v1/x/check", b"{}") == (307, b"")
    assert len(wire.heads) == 1


async def test_of_a_long_answer_only_the_beginning_is_read(wire: Wire, upstream: Upstream) -> None:
    wire.answer = b"HTTP/1.1 400 X\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 1_000_000
    with Sessions().open() as session:
        answer = await upstream.ask(session, wire.target(), "/v1/x/check", b"{}")
    assert answer is not None and answer[0] == 400
    assert upstream_module.ASK_BYTES <= len(answer[1]) < 1_000_000


async def test_whoever_asks_may_leave(wire: Wire, upstream: Upstream) -> None:
    wire.answer = b""
    with Sessions().open() as session:
        asking = asyncio.create_task(upstream.ask(session, wire.target(), "/c", b"{}"))
        await eventually(lambda: wire.bodies, "the question")
        session.end(EndReason.CALLER_GONE)
        with pytest.raises(SessionEnded):
            await asking


async def test_nobody_there(upstream: Upstream) -> None:
    target = Wire(port=free_ports(1)[0]).target()
    with Sessions().open() as session:
        assert await upstream.ask(session, target, "/c", b"{}") is None
        with pytest.raises(ConnectFailed):
            await upstream.post(session, target, "/c", b"{}", {}, lambda: True)
        assert not session.admitted


@pytest.mark.parametrize("key", ["a\nb", "a\r\nx: y", "a\0"])
async def test_a_key_that_is_no_headers_value(wire: Wire, upstream: Upstream, key: str) -> None:
    target = wire.target()
    target = replace(target, endpoint=replace(target.endpoint, api_key=key))
    with Sessions().open() as session:
        with pytest.raises(ContractError, match="the authorization for the provider is no header"):
            await upstream.post(session, target, "/c", b"{}", {}, lambda: True)
        assert not session.admitted
    assert wire.heads == []


async def test_an_endpoint_that_is_nowhere(wire: Wire, upstream: Upstream) -> None:
    target = wire.target()
    target = replace(target, endpoint=replace(target.endpoint, url="http://models:99999"))
    with Sessions().open() as session:
        assert await upstream.ask(session, target, "/c", b"{}") is None
        with pytest.raises(ConnectFailed):
            await upstream.post(session, target, "/c", b"{}", {}, lambda: True)
