"""Sessions: ending one interrupts it where it waits, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from pumas_server.contract.errors import Outcome
from pumas_server.router.sessions import EndReason, Session, SessionEnded, Sessions
from support.eventually import eventually


async def waits(session: Session, event: asyncio.Event) -> str:
    with session.interruptible():
        await event.wait()
    return "done"


async def start(session: Session, event: asyncio.Event) -> asyncio.Task[str]:
    task = asyncio.create_task(waits(session, event))
    await eventually(lambda: session._waiting is not None, "it waits")
    return task


async def test_end_interrupts_the_waiting() -> None:
    session = Session()
    task = await start(session, asyncio.Event())
    session.end(EndReason.STOPPED)
    with pytest.raises(SessionEnded) as raised:
        await task
    assert raised.value.reason is EndReason.STOPPED
    assert task.cancelling() == 0
    assert not task.cancelled()


async def test_the_first_reason_stays() -> None:
    session = Session()
    task = await start(session, asyncio.Event())
    session.end(EndReason.CALLER_GONE)
    session.end(EndReason.SHUTDOWN)
    with pytest.raises(SessionEnded) as raised:
        await task
    assert raised.value.reason is EndReason.CALLER_GONE


async def test_an_ended_session_waits_no_more() -> None:
    session = Session()
    session.end(EndReason.SHUTDOWN)
    with pytest.raises(SessionEnded), session.interruptible():
        pytest.fail("the block was entered")


async def test_ending_beside_a_wait_is_told_at_the_next_poll() -> None:
    session, event = Session(), asyncio.Event()
    event.set()
    assert await waits(session, event) == "done"
    session.end(EndReason.STOPPED)
    await asyncio.sleep(0)
    with pytest.raises(SessionEnded):
        session.poll()


async def test_a_cancellation_from_outside_propagates() -> None:
    session = Session()
    task = await start(session, asyncio.Event())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert session.ended is None


async def test_a_cancellation_from_outside_beats_an_end() -> None:
    session = Session()
    task = await start(session, asyncio.Event())
    session.end(EndReason.STOPPED)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_an_end_beside_the_event_it_waited_for() -> None:
    session, event = Session(), asyncio.Event()
    task = await start(session, event)
    event.set()
    session.end(EndReason.STOPPED)
    with pytest.raises(SessionEnded):
        await task
    assert task.cancelling() == 0


async def test_the_task_goes_on_after_an_end() -> None:
    session = Session()

    async def work() -> str:
        try:
            with session.interruptible():
                await asyncio.Event().wait()
        except SessionEnded:
            await asyncio.sleep(0)
            return "cleaned up"
        return "not interrupted"

    task = asyncio.create_task(work())
    await eventually(lambda: session._waiting is not None, "it waits")
    session.end(EndReason.STOPPED)
    assert await task == "cleaned up"


async def test_a_fault_inside_the_block_passes() -> None:
    session = Session()
    with pytest.raises(OSError), session.interruptible():
        raise OSError
    session.poll()


def test_the_marker_alone_decides_the_outcome() -> None:
    session = Session()
    assert session.outcome is Outcome.NOT_ADMITTED
    session.end(EndReason.SHUTDOWN)
    assert session.outcome is Outcome.NOT_ADMITTED
    session.admitted = True
    assert session.outcome is Outcome.UNKNOWN


async def test_stop_ends_the_sessions_of_one_model() -> None:
    sessions = Sessions()
    with sessions.open() as one, sessions.open() as other, sessions.open() as unknown:
        one.model_uid, other.model_uid = "a", "b"
        sessions.stop("a")
        assert one.ended is EndReason.STOPPED
        assert other.ended is None
        assert unknown.ended is None


async def test_shutdown_ends_all_that_are_open_and_all_to_come() -> None:
    sessions = Sessions()
    with sessions.open() as one:
        sessions.shutdown()
        assert one.ended is EndReason.SHUTDOWN
        with sessions.open() as late:
            assert late.ended is EndReason.SHUTDOWN
            assert late.outcome is Outcome.NOT_ADMITTED


async def test_until_idle() -> None:
    sessions = Sessions()
    await sessions.until_idle()
    with sessions.open():
        waiting = asyncio.create_task(sessions.until_idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        assert len(sessions) == 1
    async with asyncio.timeout(1):
        await waiting
    assert len(sessions) == 0
