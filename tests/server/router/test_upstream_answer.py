"""An answer as it comes: what is read of it, when reading stops, and how its end is told."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router.upstream_answer import PIECE_BYTES, Broken, UpstreamAnswer


class Flow:
    """An answer, and what it asked of its connection."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer = UpstreamAnswer(
            asyncio.get_running_loop(),
            lambda: self.asked.append("pause"),
            lambda: self.asked.append("resume"),
        )

    async def rest(self) -> list[bytes]:
        pieces = []
        while piece := await self.answer.read():
            pieces.append(piece)
        return pieces


@given(st.lists(st.integers(1, 300_000), max_size=8), st.booleans())
def test_all_of_it_is_read_in_bounded_pieces(sizes: list[int], late: bool) -> None:
    """Whether it was there before anybody read, or comes while somebody waits."""
    body = [bytes([n % 256]) * size for n, size in enumerate(sizes)]

    async def read() -> None:
        flow = Flow()
        reading = asyncio.create_task(flow.rest())
        if late:
            await asyncio.sleep(0)
        for piece in body:
            flow.answer.feed(piece)
            if late:
                await asyncio.sleep(0)
        flow.answer.end()
        pieces = await reading
        assert b"".join(pieces) == b"".join(body)
        assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)
        assert flow.asked in ([], *(["pause", "resume"] * n for n in range(1, 9)))
        assert not flow.answer.paused

    asyncio.run(read())


async def test_small_pieces_are_given_together() -> None:
    flow = Flow()
    for _ in range(100):
        flow.answer.feed(b"x" * 10)
    assert await flow.answer.read() == b"x" * 1000


async def test_nothing_more_is_read_than_is_taken() -> None:
    flow = Flow()
    flow.answer.feed(b"x" * 131_072)
    assert flow.asked == []
    flow.answer.feed(b"x")
    flow.answer.feed(b"x")
    assert flow.asked == ["pause"]
    await flow.answer.read()
    assert flow.asked == ["pause"]
    await flow.answer.read()
    assert flow.asked == ["pause", "resume"]


async def test_its_header() -> None:
    answer = Flow().answer
    waiting = asyncio.create_task(answer.headed())
    await asyncio.sleep(0)
    assert not waiting.done()
    answer.begin(299, [(b"content-type", b"Text/Event-Stream; a=b"), (b"x", b"1"), (b"x", b"2")])
    await waiting
    assert answer.success and answer.content_type == "text/event-stream"
    assert (answer.header(b"x"), answer.header(b"y")) == (b"1", None)
    answer.begin(300, [])
    assert not answer.success and answer.content_type == ""


async def test_a_status_of_zero_is_a_header_too() -> None:
    answer = Flow().answer
    answer.begin(0, [])
    await answer.headed()
    assert not answer.success


async def test_a_fault_is_told_after_what_came_before_it() -> None:
    answer = Flow().answer
    answer.begin(200, [])
    answer.feed(b"some")
    answer.fail("first")
    answer.fail("second")
    assert await answer.read() == b"some"
    for _ in range(2):
        with pytest.raises(Broken, match="first"):
            await answer.read()


async def test_a_fault_ends_the_waiting() -> None:
    for wait in (UpstreamAnswer.headed, UpstreamAnswer.read):
        answer = Flow().answer
        waiting = asyncio.create_task(wait(answer))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        answer.fail("gone")
        with pytest.raises(Broken, match="gone"):
            await waiting


async def test_a_whole_answer_has_no_fault() -> None:
    answer = Flow().answer
    answer.begin(200, [])
    answer.feed(b"all")
    answer.end()
    answer.fail("too late")
    assert [await answer.read(), await answer.read()] == [b"all", b""]


async def test_a_reader_that_was_cancelled_loses_nothing() -> None:
    answer = Flow().answer
    waiting = asyncio.create_task(answer.read())
    await asyncio.sleep(0)
    waiting.cancel()
    answer.feed(b"x")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await answer.read() == b"x"
