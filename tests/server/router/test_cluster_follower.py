"""Following collections of an API server that does everything wrong that one can."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import pytest

from pumas_server.router import cluster_access as access_module
from pumas_server.router import cluster_follower as follower_module
from pumas_server.router import cluster_source as source_module
from pumas_server.router.cluster_records import Reading, read_model
from support.api_server import (
    MODELS,
    SLICES,
    Fault,
    ScriptedApiServer,
    cut,
    fall_silent,
    hang,
    held,
    refuse,
    say,
)
from support.cluster_following import following
from support.cluster_objects import address, model_object, slice_object
from support.eventually import eventually

A, B = model_object("a"), model_object("b")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    async with ScriptedApiServer().serving() as scripted:
        scripted.put(MODELS, A)
        yield scripted


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a test need not wait for."""
    monkeypatch.setattr(follower_module, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(follower_module, "_LONGEST_PAUSE_SECONDS", 0.05)


# Going on


async def test_a_watch_that_ends_goes_on_from_the_last_version(server: ScriptedApiServer) -> None:
    async with following(server) as followed:
        await followed.until_watching()
        server.put(MODELS, B)
        await followed.until_names("a", "b")
        last = server.store.version
        server.end(MODELS)
        await eventually(lambda: len(server.watches(MODELS)) == 2, "a second watch")
        assert server.watches(MODELS)[-1].query["resourceVersion"] == str(last)
        server.delete(MODELS, A)
        await followed.until_names("b")
        assert server.lists(MODELS) == 1


async def test_a_bookmark_is_where_a_watch_goes_on(server: ScriptedApiServer) -> None:
    async with following(server) as followed:
        await followed.until_watching()
        server.bookmark(MODELS)
        last = server.store.version
        server.compact()
        server.end(MODELS)
        await eventually(lambda: len(server.watches(MODELS)) == 2, "a second watch")
        assert server.watches(MODELS)[-1].query["resourceVersion"] == str(last)
        server.put(MODELS, B)
        await followed.until_names("a", "b")
        assert server.lists(MODELS) == 1


async def test_a_broken_watch_goes_on_after_what_it_brought(server: ScriptedApiServer) -> None:
    """Not from where it began: old states of objects would come back for a moment."""
    async with following(server) as followed:
        await followed.until_watching()
        server.put(MODELS, B)
        server.delete(MODELS, B)
        server.put(MODELS, model_object("c"))
        await followed.until_names("a", "c")
        last, told = server.store.version, len(followed.told)
        await server.cut(MODELS)
        await eventually(lambda: len(server.watches(MODELS)) == 2, "a second watch")
        assert server.watches(MODELS)[-1].query["resourceVersion"] == str(last)
        server.put(MODELS, model_object("d"))
        await followed.until_names("a", "c", "d")
        assert len(followed.told) == told + 1


async def test_half_a_line_is_not_taken_in(server: ScriptedApiServer) -> None:
    async with following(server) as followed:
        await followed.until_watching()
        server.send(MODELS, b'{"type": "DELETED", "object": {"metadata": {"uid": "uid-of-a"')
        await server.cut(MODELS)
        await eventually(lambda: len(server.watches(MODELS)) == 2, "a second watch")
        server.put(MODELS, B)
        await followed.until_names("a", "b")
        assert [len(listing) for listing in followed.told] == [1, 2]
        assert server.lists(MODELS) == 1


async def test_lines_come_in_any_pieces(server: ScriptedApiServer) -> None:
    async with following(server) as followed:
        await followed.until_watching()
        watch = server._open(MODELS)[0]
        server.put(MODELS, B)
        server.put(MODELS, model_object("c"))
        server.delete(MODELS, A)
        whole = b"\n" + b"".join(watch.to_send.get_nowait() or b"" for _ in range(3))
        for start in range(0, len(whole), 7):
            server.send(MODELS, whole[start : start + 7])
        await followed.until_names("b", "c")
        assert server.lists(MODELS) == 1


@pytest.mark.parametrize("by", ["status", "event"])
async def test_a_version_that_is_gone_means_a_new_listing(
    server: ScriptedApiServer, by: str
) -> None:
    """And until all of its pages are there, nothing is missing from what is told."""
    server.page = 1
    server.put(MODELS, B)
    async with following(server) as followed:
        await followed.until_names("a", "b")
        await followed.until_watching()
        gate = asyncio.Event()
        server.fail(MODELS, server._list)
        server.fail(MODELS, held(gate, server._list))
        if by == "event":
            server.expire(MODELS)
        else:
            server.store.version += 1
            server.compact()
            server.end(MODELS)
        await eventually(lambda: not server.faults, "half of it is listed")
        server.put(SLICES, slice_object(address("10.0.0.1"), model="a"))
        await eventually(lambda: followed.told[-1][0].endpoints, "a change meanwhile")
        server.delete(MODELS, B)
        server.put(MODELS, model_object("c"))
        gate.set()
        await followed.until_names("a", "c")
        assert server.lists(MODELS) == 2
        assert all(r for r in followed.told)
        assert all("a" in {r.model.metadata.name for r in listing} for listing in followed.told)
        assert [len(listing) for listing in followed.told] == [2] * len(followed.told)


async def test_pages_that_expire_are_listed_anew(server: ScriptedApiServer, quick: None) -> None:
    server.page = 1
    server.put(MODELS, B)
    server.fail(MODELS, server._list)
    server.fail(MODELS, refuse(410))
    async with following(server) as followed:
        await followed.until_names("a", "b")
        assert server.lists(MODELS) == 2


# An API server that is away, or not itself


async def test_while_the_server_is_away_the_last_listing_stays(quick: None) -> None:
    server = ScriptedApiServer()
    server.put(MODELS, A)
    attempts = 0

    def nobody(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    async with AsyncExitStack() as stack:
        async with server.serving():
            followed = await stack.enter_async_context(following(server))
            await followed.until_names("a")
            await followed.until_watching()
        server.put(MODELS, B)
        # From refused connections to some that break.
        async with await asyncio.start_server(nobody, "127.0.0.1", server.port):
            await eventually(lambda: attempts >= 6, "it tries")
        assert [len(listing) for listing in followed.told] == [1]
        async with server.serving():
            await followed.until_names("a", "b")
        assert [len(listing) for listing in followed.told] == [1, 2]
        assert server.lists(MODELS) == 1, "it goes on from the version that it knows"


@pytest.mark.parametrize("watch", [False, True], ids=["list", "watch"])
@pytest.mark.parametrize(
    ("fault", "anew"),
    [
        (refuse(400), True),
        (refuse(401), False),
        (refuse(403), False),
        (refuse(404), True),
        (refuse(429), False),
        (refuse(500), False),
        (refuse(503), False),
        (cut, False),
        (say(b"no JSON\n"), True),
        (say(b"[]\n"), True),
        (say(b"[" * 100_000 + b"\n"), True),
        (say(b"\xff\n"), True),
        (say(b'{"kind": "Status"}\n'), True),
        (say(b'{"items": 7, "metadata": {"resourceVersion": "1"}}\n'), True),
        (say(b'{"items": [7], "metadata": {"resourceVersion": "1"}}\n'), True),
        (say(b'{"items": [{"metadata": {}}], "metadata": {"resourceVersion": "1"}}\n'), True),
        (say(b'{"items": [], "metadata": {}}\n'), True),
        (say(b'{"type": "ADDED", "object": {"metadata": {"uid": 7}}}\n'), True),
        (say(b'{"type": "ADDED", "object": 7}\n'), True),
        (say(b'{"type": "ERROR", "object": {"code": 500}}\n'), True),
        (say(b'{"type": "SUNG", "object": {"metadata": {"resourceVersion": "1"}}}\n'), True),
        (say(b'{"type": "BOOKMARK", "object": {"metadata": {}}}\n'), True),
    ],
    ids=lambda value: "" if isinstance(value, bool) else None,
)
async def test_whatever_answers_once_it_goes_on(
    server: ScriptedApiServer, quick: None, fault: Fault, anew: bool, watch: bool
) -> None:
    server.fail(MODELS, fault, watch=watch)
    async with following(server) as followed:
        await eventually(lambda: not server.faults, "the fault")
        await followed.until_names("a")
        await followed.until_watching()
        server.put(MODELS, B)
        await followed.until_names("a", "b")
        assert server.lists(MODELS) == (1 if watch and not anew else 2)
        assert [len(listing) for listing in followed.told] == [1, 2]


async def test_a_line_that_does_not_end_is_given_up(
    server: ScriptedApiServer, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "_LONGEST_LINE_BYTES", 1000)
    server.fail(MODELS, fall_silent(b"x" * 1001), watch=True)
    async with following(server) as followed:
        await followed.until_watching()
        assert (server.lists(MODELS), followed.names()) == (2, ["a"])


@pytest.mark.parametrize("fault", [hang, fall_silent()], ids=["no answer", "no event"])
async def test_a_watch_that_dies_silently_is_noticed(
    server: ScriptedApiServer, quick: None, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(access_module, "_HEADER_SECONDS", 0.2)
    monkeypatch.setattr(follower_module, "WATCH_SECONDS", 0.1)
    monkeypatch.setattr(follower_module, "_GRACE_SECONDS", 0.1)
    server.fail(MODELS, fault, watch=True)
    async with following(server) as followed:
        await eventually(lambda: len(server.watches(MODELS)) == 2, "a second watch", 5)
        server.put(MODELS, B)
        await followed.until_names("a", "b")
        assert server.lists(MODELS) == 1


@pytest.mark.parametrize("fault", [hang, fall_silent(b'{"items": [')], ids=["no answer", "half"])
async def test_a_listing_that_dies_silently_is_noticed(
    server: ScriptedApiServer, quick: None, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(access_module, "_HEADER_SECONDS", 0.2)
    monkeypatch.setattr(follower_module, "_LIST_SILENCE_SECONDS", 0.2)
    server.fail(MODELS, fault)
    async with following(server) as followed:
        await followed.until_names("a")


@pytest.mark.parametrize("watch", [False, True], ids=["list", "watch"])
async def test_attempts_grow_rarer(
    server: ScriptedApiServer, monkeypatch: pytest.MonkeyPatch, watch: bool
) -> None:
    """Also where the server ends every watch at once, which is no error."""
    monkeypatch.setattr(follower_module, "_FIRST_PAUSE_SECONDS", 0.04)
    monkeypatch.setattr(follower_module, "_LONGEST_PAUSE_SECONDS", 0.2)
    for _ in range(6):
        server.fail(MODELS, say(b"") if watch else refuse(503), watch=watch)
    async with following(server) as followed:
        await followed.until_names("a")
        await followed.until_watching()
    times = [a.at for a in server.asked if a.path == MODELS and a.watches is watch][:7]
    gaps = [after - before for before, after in pairwise(times)]
    least = [0.02, 0.04, 0.08, 0.1, 0.1, 0.1]
    assert all(gap >= wanted * 0.95 for gap, wanted in zip(gaps, least, strict=True)), gaps


async def test_a_steady_watch_that_ends_makes_no_pause_grow(
    server: ScriptedApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "_STEADY_SECONDS", 0.05)
    monkeypatch.setattr(follower_module, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(follower_module, "_LONGEST_PAUSE_SECONDS", 1000)
    async with following(server) as followed:
        for count in range(1, 25):
            await eventually(lambda n=count: len(server.watches(MODELS)) == n, "a watch")  # type: ignore[misc]
            await eventually(lambda: server.watching(MODELS), "open")
            # Its successor may be there before anybody has looked: the count alone tells the end.
            asyncio.get_running_loop().call_later(0.06, server.end, MODELS)
        assert followed.names() == ["a"]


async def test_the_log_tells_the_beginning_and_the_end_of_trouble(
    server: ScriptedApiServer, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        server.fail(MODELS, refuse(503))
    server.fail(MODELS, refuse(403))
    with caplog.at_level(logging.WARNING):
        async with following(server) as followed:
            await followed.until_names("a")
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "the API server answers 503; trying again",
        "the API server answers 403; trying again",
        "goes on",
    ]


async def test_a_fault_of_ours_is_logged_and_does_not_stop_it(
    server: ScriptedApiServer,
    quick: None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [KeyError("a fault of ours")]

    def fails_once(body: Any) -> Reading:
        if failures:
            raise failures.pop()
        return read_model(body)

    monkeypatch.setattr(source_module, "read_model", fails_once)
    async with following(server) as followed:
        await followed.until_names("a")
    (record,) = [r for r in caplog.records if r.exc_info]
    assert "following failed" in record.getMessage()
