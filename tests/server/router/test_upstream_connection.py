"""One connection to a provider, on a transport that is only written to: bytes in, bytes out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router.upstream_answer import Broken, UpstreamAnswer
from pumas_server.router.upstream_connection import MAX_FIELDS, UpstreamConnection
from support.eventually import eventually

HEAD = b"POST /v1/x HTTP/1.1\r\n\r\n"


@dataclass
class Line(asyncio.Transport):
    """A transport whose other end is the test. It loses its connection a little after `abort`."""

    connection: UpstreamConnection
    sent: bytearray = field(default_factory=bytearray)
    room: int = 1 << 30
    """Bytes that it takes before it says that it is full."""
    reading: bool = True
    closing: bool = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self.closing
        before, self.room = self.room, self.room - len(data)
        self.sent += data
        if before > 0 >= self.room:
            self.connection.pause_writing()

    def drain(self, room: int) -> None:
        self.room = room
        self.connection.resume_writing()

    def pause_reading(self) -> None:
        assert self.reading and not self.closing
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.closing
        self.reading = True

    def abort(self) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


def connected() -> tuple[UpstreamConnection, Line]:
    connection = UpstreamConnection(lambda _: None)
    line = Line(connection)
    connection.connection_made(line)
    return connection, line


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await work()

    asyncio.run(whole())


async def rest(answer: UpstreamAnswer) -> bytes:
    found = b""
    while piece := await answer.read():
        found += piece
    return found


LENGTH = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX-Trailer: z\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + LENGTH
LAST = LENGTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
LONE_FEEDS = b"HTTP/1.1 200 OK\ncontent-type: a/b\ncontent-length: 5\n\nhello"


@pytest.mark.parametrize(
    ("raw", "again"),
    [(LENGTH, True), (CHUNKED, True), (INTERIM, True), (LAST, False), (LONE_FEEDS, True)],
    ids=["length", "chunked", "interim", "close", "without carriage returns"],
)
@given(cuts=st.lists(st.integers(1, 200), max_size=6))
def test_however_it_is_cut_it_is_the_same_answer(raw: bytes, again: bool, cuts: list[int]) -> None:
    async def work() -> None:
        connection, line = connected()
        answer = connection.ask(HEAD, b"{}")
        assert line.sent == HEAD + b"{}"
        places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
        for start, end in pairwise(places):
            connection.data_received(raw[start:end])
        await answer.headed()
        assert (answer.status, answer.content_type) == (200, "a/b")
        assert await rest(answer) == b"hello"
        assert connection.leave() is again
        assert line.closing is not again

    run(work)


async def test_it_carries_one_call_after_the_other() -> None:
    connection, line = connected()
    for number in range(1, 4):
        answer = connection.ask(HEAD, b"{}")
        connection.data_received(CHUNKED if number % 2 else LENGTH)
        assert await rest(answer) == b"hello"
        assert connection.leave()
        assert connection.uses == number
    assert line.sent == (HEAD + b"{}") * 3


async def test_a_body_may_end_with_its_connection() -> None:
    connection, line = connected()
    answer = connection.ask(HEAD, b"")
    connection.data_received(b"HTTP/1.1 200 OK\r\n\r\nhel")
    connection.data_received(b"lo")
    assert connection.eof_received() is False
    assert await rest(answer) == b"hello"
    assert not connection.leave()
    assert line.closing


@pytest.mark.parametrize("raw", [b"HTTP/1.1 200 OK\r\n\r\nhello", LENGTH[:-1], CHUNKED[:-2], b""])
async def test_a_reset_is_no_end(raw: bytes) -> None:
    connection, _ = connected()
    answer = connection.ask(HEAD, b"")
    connection.data_received(raw)
    connection.connection_lost(ConnectionResetError())
    with pytest.raises(Broken):
        await rest(answer)
    assert not connection.leave()


@pytest.mark.parametrize("raw", [LENGTH[:-1], CHUNKED[:-2], LENGTH[:20], b"", INTERIM[:30]])
async def test_its_end_comes_too_early(raw: bytes) -> None:
    connection, line = connected()
    answer = connection.ask(HEAD, b"")
    connection.data_received(raw)
    connection.eof_received()
    line.abort()
    await asyncio.sleep(0)
    with pytest.raises(Broken):
        await rest(answer)


@pytest.mark.parametrize("status", [101, 204, 304])
async def test_an_answer_that_has_no_body(status: int) -> None:
    connection, _ = connected()
    answer = connection.ask(HEAD, b"")
    connection.data_received(b"HTTP/1.1 %d X\r\ncontent-length: 9\r\n\r\n" % status)
    await answer.headed()
    assert (answer.status, await rest(answer)) == (status, b"")


@pytest.mark.parametrize("behind", [LENGTH, b"garbage", b"HTTP/1.1 100 Continue\r\n\r\n", b"H"])
@pytest.mark.parametrize("late", [False, True])
async def test_what_comes_behind_it_is_nobodys(behind: bytes, late: bool) -> None:
    connection, line = connected()
    answer = connection.ask(HEAD, b"")
    if late:
        connection.data_received(CHUNKED)
        connection.data_received(behind)
    else:
        connection.data_received(CHUNKED + behind)
    assert await rest(answer) == b"hello"
    assert not connection.leave()
    assert line.closing


async def test_what_comes_between_two_calls_closes_it() -> None:
    connection, line = connected()
    connection.ask(HEAD, b"")
    connection.data_received(LENGTH)
    assert connection.leave()
    connection.data_received(LENGTH)
    assert line.closing


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 8_190,
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * (MAX_FIELDS + 1),
        b"HTTP/1.1 100 X\r\n\r\n" * 4_000,
        CHUNKED[:-2] + b"x: y\r\n" * (MAX_FIELDS + 1),
        CHUNKED[:-7] + b";" + b"x" * 70_000,
    ],
    ids=["a long field", "many fields", "only interim answers", "a long trailer", "an extension"],
)
async def test_framing_is_bounded(raw: bytes) -> None:
    connection, _ = connected()
    answer = connection.ask(HEAD, b"")
    for start in range(0, len(raw), 10_000):
        connection.data_received(raw[start : start + 10_000])
    connection.data_received(b"\r\n\r\n" if b"x: y" in raw or b"yyy" in raw else b"")
    with pytest.raises(Broken, match="no HTTP"):
        await rest(answer)
    assert not connection.leave()


async def test_a_length_that_the_parser_does_not_see_is_not_missed() -> None:
    """Taken for a body that ends with its connection, a piece of it would be whole."""
    connection, _ = connected()
    answer = connection.ask(HEAD, b"")
    connection.data_received(LENGTH[:-1].replace(b"Length:", b"Length :"))
    connection.eof_received()
    with pytest.raises(Broken, match="no HTTP"):
        await rest(answer)


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip\r\nTransfer-Encoding: chunked"])
async def test_a_coding_that_nobody_undoes(coding: bytes) -> None:
    """Its chunks may all come; what is in them is not the body."""
    connection, _ = connected()
    answer = connection.ask(HEAD, b"")
    connection.data_received(CHUNKED.replace(b"chunked", coding))
    with pytest.raises(Broken, match="no HTTP"):
        await rest(answer)
    assert not connection.leave()


@pytest.mark.parametrize("length", [5, 60_000])
async def test_a_body_of_an_interim_answer_is_nobodys(length: int) -> None:
    connection, line = connected()
    answer = connection.ask(HEAD, b"")
    interim = b"HTTP/1.1 199 X\r\ncontent-length: %d\r\n\r\n" % length + b"x" * length
    connection.data_received(interim)
    connection.data_received(LENGTH)
    assert line.reading
    assert await rest(answer) == b"hello"


async def test_a_long_body_of_an_interim_answer_stops_no_reading() -> None:
    """Nobody would take of it what is held: the answer, or its connection's end, came to nobody."""
    connection, line = connected()
    answer = connection.ask(HEAD, b"")
    connection.data_received(b"HTTP/1.1 199 X\r\ncontent-length: 200000\r\n\r\n" + b"x" * 190_000)
    assert line.reading
    with pytest.raises(Broken, match="no HTTP"):
        await answer.headed()


async def test_a_call_that_is_left_early_takes_it_along() -> None:
    connection, line = connected()
    connection.ask(HEAD, b"")
    connection.data_received(LENGTH[:-1])
    assert not connection.leave()
    assert line.closing


async def test_a_long_request_is_written_as_it_is_taken() -> None:
    connection, line = connected()
    body = bytes(range(256)) * 1024
    line.room = 70_000
    answer = connection.ask(HEAD, body)
    await eventually(lambda: connection.writing_paused, "the connection takes no more")
    assert len(line.sent) < 200_000
    line.drain(1 << 30)
    await eventually(lambda: line.sent == HEAD + body, "all of it is written")
    connection.data_received(LENGTH)
    assert await rest(answer) == b"hello"
    assert connection.leave()


async def test_an_answer_before_the_request_was_written() -> None:
    """It is an answer; what is left of the request would be the next one's beginning."""
    connection, line = connected()
    line.room = 70_000
    answer = connection.ask(HEAD, b"x" * 1_000_000)
    await eventually(lambda: connection.writing_paused, "the connection takes no more")
    connection.data_received(LENGTH)
    assert await rest(answer) == b"hello"
    assert not connection.leave()
    assert line.closing


async def test_a_connection_that_breaks_while_a_request_is_written() -> None:
    connection, line = connected()
    line.room = 70_000
    answer = connection.ask(HEAD, b"x" * 1_000_000)
    await eventually(lambda: connection.writing_paused, "the connection takes no more")
    line.abort()
    with pytest.raises(Broken):
        await answer.headed()
    assert not connection.leave()


async def test_a_paused_reading_goes_on_for_the_next_call() -> None:
    connection, line = connected()
    raw = b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"x" * 200_000
    answer = connection.ask(HEAD, b"")
    connection.data_received(raw)
    assert answer.complete and not line.reading
    assert connection.leave()
    assert line.reading
