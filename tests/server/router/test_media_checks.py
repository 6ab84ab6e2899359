"""Checks of media: few at once, never waited for, ended with their request, off the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pumas_server.media.request_media import CheckedMedia, Media
from pumas_server.media.stopping import Stopped
from pumas_server.router import media_checks
from support.documents import text_part
from support.eventually import eventually
from support.routers import (
    TEST_SETTINGS,
    RunningRouter,
    chat_operation,
    external,
    running_router,
)
from support.senses import image_part, png_of_size, said
from support.upstream import ScriptedUpstream

SEES = {
    "object": "list",
    "data": [
        {
            "id": "served",
            "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
        }
    ],
}
LOOK = chat_operation(input=said(image_part()), capability=..., options=...)


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(models=SEES).serving() as scripted:
        yield scripted


@pytest.fixture
async def router(upstream: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    record = external(upstream.url, task="image-text-to-text")
    async with running_router(record) as running:
        yield running


class Held:
    """In place of a check: one that ends when it is let, or asked to stop and let stop."""

    def __init__(self) -> None:
        self.began = 0
        self.stopped = 0
        self.let = threading.Event()
        self.may_stop = threading.Event()

    def __call__(self, media: Media, stopped: Callable[[], bool]) -> CheckedMedia:
        self.began += 1
        while not self.let.wait(0.005):
            if stopped():
                self.stopped += 1
                assert self.may_stop.wait(20)
                raise Stopped
        return CheckedMedia((), ())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Any:
    checks = Held()
    monkeypatch.setattr(media_checks, "check", checks)
    yield checks
    checks.let.set()
    checks.may_stop.set()


async def fill(router: RunningRouter, held: Held) -> list[asyncio.Task[Any]]:
    """Occupy every permit."""
    calls = [asyncio.create_task(router.operate(LOOK)) for _ in range(TEST_SETTINGS.image_permits)]
    await eventually(lambda: held.began == len(calls), "every thread is at work")
    return calls


async def test_case_48_while_all_are_busy_the_next_is_refused_at_once(
    router: RunningRouter, upstream: ScriptedUpstream, held: Held
) -> None:
    calls = await fill(router, held)
    assert len(calls) == router.router.media.permits == 2
    before = len(upstream.uses)
    async with asyncio.timeout(5):
        status, headers, raw = await router.post("/v1/model-operations", LOOK)
    error = json.loads(raw)["error"]
    assert (status, error["code"], error["outcome"]) == (
        503, "capability_unavailable", "not_admitted",
    )  # fmt: skip
    assert "all 2 media checks" in error["message"]
    assert headers["x-pumas-outcome"] == "not_admitted"
    assert (upstream.seen, len(upstream.uses)) == ([], before)
    # Whoever brings no media is not concerned, and neither is one whose media are too many.
    assert (await router.operate(chat_operation()))[0] == 200
    many = chat_operation(input=said(*[image_part()] * 5), capability=..., options=...)
    assert (await router.operate(many))[0] == 413
    held.let.set()
    assert [status for status, _ in await asyncio.gather(*calls)] == [200, 200]
    await router.idle()
    assert router.router.media.busy == 0
    assert (await router.operate(LOOK))[0] == 200


async def test_a_permit_comes_back_when_the_thread_has_stopped_and_not_when_the_caller_left(
    router: RunningRouter, upstream: ScriptedUpstream, held: Held
) -> None:
    async with router.raw("/v1/model-operations", LOOK):
        await eventually(lambda: held.began == 1, "the check runs")
    await eventually(lambda: held.stopped == 1, "the check is told")
    async with asyncio.timeout(1):
        await router.router.sessions.until_idle()
    assert router.router.media.busy == 1
    held.may_stop.set()
    await eventually(lambda: router.router.media.busy == 0, "the permit is back")
    assert upstream.seen == []
    held.let.set()
    assert (await router.operate(LOOK))[0] == 200
    await router.idle()


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_router_that_stops_tells_that_nothing_was_admitted(
    router: RunningRouter, upstream: ScriptedUpstream, held: Held, streamed: bool
) -> None:
    body = LOOK | {"capability": "chat_generation", "stream": streamed}
    call = asyncio.create_task(router.post("/v1/model-operations", body))
    await eventually(lambda: held.began == 1, "the check runs")
    router.router.shutdown()
    async with asyncio.timeout(1):
        status, headers, raw = await call
    error = json.loads(raw)["error"]
    assert (status, error["code"], error["outcome"]) == (502, "transport_lost", "not_admitted")
    assert headers["x-pumas-outcome"] == "not_admitted"
    assert upstream.seen == []
    held.may_stop.set()
    await eventually(lambda: router.router.media.busy == 0, "the thread has stopped")


async def test_a_check_that_breaks_is_a_fault_of_ours_and_gives_its_permit_back(
    router: RunningRouter, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(media: Media, stopped: Callable[[], bool]) -> CheckedMedia:
        raise MemoryError

    monkeypatch.setattr(media_checks, "check", breaks)
    for _ in range(3):
        status, _, _ = await router.post("/v1/model-operations", LOOK)
        assert status == 500
    assert (router.router.media.busy, upstream.seen) == (0, [])


async def test_the_metrics_tell_how_many_run(router: RunningRouter, held: Held) -> None:
    calls = await fill(router, held)
    _, _, raw = await router.get("/metrics")
    assert b"pumas_media_checks_in_use 2.0\n" in raw
    assert b"pumas_media_checks 2.0\n" in raw
    held.let.set()
    await asyncio.gather(*calls)


async def longest_gap(until: asyncio.Event) -> float:
    """The longest time for which the loop did not come back to a task that never waits."""
    worst, last = 0.0, time.perf_counter()
    while not until.is_set():
        await asyncio.sleep(0)
        now = time.perf_counter()
        worst, last = max(worst, now - last), now
    return worst


async def test_a_large_request_does_not_hold_up_the_others(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    """What decoding takes is a thread's; what is left for the loop is parsing its JSON."""
    large = png_of_size(2048, 2048)
    padded = large[:33] + _chunk_of(3_900_000) + large[33:]
    parts = [image_part(padded)] * 4
    body = json.dumps(
        chat_operation(input=said(text_part(), *parts), capability=..., options=...)
    ).encode()
    assert len(body) > 20_000_000
    done = asyncio.Event()
    ticking = asyncio.create_task(longest_gap(done))
    started = time.perf_counter()
    status, _, raw = await router.post("/v1/model-operations", body)
    took = time.perf_counter() - started
    done.set()
    gap = await ticking
    assert status == 200, raw
    # Parsing takes tens of milliseconds for a body of this size; on a busy machine, a few times that.
    assert gap < max(0.5, took / 3), f"the loop stood still for {gap:.3f} of {took:.3f} s"
    assert len(upstream.seen[0].body) > 20_000_000
    await router.idle()


def _chunk_of(size: int) -> bytes:
    """An ancillary PNG chunk that nobody reads."""
    content = b"puMs" + bytes(size)
    return size.to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")
