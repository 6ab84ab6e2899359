"""Work on long bodies leaves the event loop to others, and ends for nobody's sake."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pumas_server.router.at_length import LONG_BYTES, at_length
from pumas_server.router.sessions import EndReason, SessionEnded, Sessions


async def test_short_work_stays_on_the_loops_thread() -> None:
    with Sessions().open() as session:
        here = threading.get_ident()
        assert await at_length(session, LONG_BYTES - 1, threading.get_ident) == here
        assert await at_length(session, LONG_BYTES, threading.get_ident) != here


@pytest.mark.parametrize("size", [0, LONG_BYTES])
async def test_what_the_work_raises(size: int) -> None:
    def fail() -> None:
        raise ValueError("of its own")

    with Sessions().open() as session, pytest.raises(ValueError, match="of its own"):
        await at_length(session, size, fail)


async def test_a_session_that_ends_does_not_wait_for_the_work() -> None:
    began, go_on = threading.Event(), threading.Event()

    def work() -> str:
        began.set()
        go_on.wait(20)
        return "too late"

    with Sessions().open() as session:
        waiting = asyncio.create_task(at_length(session, LONG_BYTES, work))
        await asyncio.to_thread(began.wait, 20)
        session.end(EndReason.CALLER_GONE)
        with pytest.raises(SessionEnded):
            await waiting
    go_on.set()
