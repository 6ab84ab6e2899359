"""The router's view of a cluster, against an API server that does everything wrong that one can."""

from __future__ import annotations

import asyncio
import datetime
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import certifi
import pytest
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import incluster_config, kube_config

from pumas_server.router import cluster_access as access_module
from pumas_server.router import cluster_follower as follower_module
from pumas_server.router.cluster_access import ClusterAccess, cluster_access
from pumas_server.router.cluster_source import ClusterSource
from pumas_server.router.source import ModelRecord
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
from support.cluster_objects import address, model_object, slice_object
from support.eventually import eventually

SECRET = b"secret"
A, B = model_object("a"), model_object("b")


@dataclass
class Followed:
    """What a source has told so far."""

    server: ScriptedApiServer
    told: list[tuple[ModelRecord, ...]] = field(default_factory=list)

    def names(self) -> list[str]:
        """The models of the newest listing; none before the first."""
        return sorted(r.model.metadata.name for r in self.told[-1]) if self.told else []

    async def until_names(self, *names: str) -> None:
        await eventually(lambda: self.told and self.names() == list(names), f"it tells {names}")

    async def until_watching(self) -> None:
        server = self.server
        await eventually(lambda: server.watching(MODELS) and server.watching(SLICES), "it watches")


@asynccontextmanager
async def access_to(server: ScriptedApiServer) -> AsyncIterator[ClusterAccess]:
    configuration = Configuration()
    configuration.host = server.url
    async with cluster_access(configuration) as access:
        yield access


@asynccontextmanager
async def following(server: ScriptedApiServer, *namespaces: str) -> AsyncIterator[Followed]:
    async with access_to(server) as access:
        followed = Followed(server)

        async def follow() -> None:
            source = ClusterSource(access, namespaces, SECRET)
            async with aclosing(cast(Any, source.watch())) as listings:
                async for records in listings:
                    followed.told.append(records)

        task = asyncio.create_task(follow())
        try:
            yield followed
        finally:
            assert not task.done(), "following never ends by itself"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            left = [t for t in asyncio.all_tasks() if t.get_name().startswith("follow ")]
            assert left == []


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


# What it tells


async def test_nothing_is_told_before_everything_was_listed(server: ScriptedApiServer) -> None:
    gate = asyncio.Event()
    server.put(SLICES, slice_object(address("10.0.0.1"), model="a"))
    server.fail(SLICES, held(gate, server._list))
    async with following(server) as followed:
        await eventually(lambda: server.watching(MODELS) == 1, "models are watched")
        assert followed.told == []
        gate.set()
        await followed.until_names("a")
        assert [len(listing[0].endpoints) for listing in followed.told] == [1]


async def test_an_empty_cluster_is_told_as_such() -> None:
    async with ScriptedApiServer().serving() as empty, following(empty) as followed:
        await eventually(lambda: followed.told == [()], "an empty listing")


async def test_changes_are_told(server: ScriptedApiServer) -> None:
    async with following(server) as followed:
        await followed.until_watching()
        server.put(MODELS, B)
        await followed.until_names("a", "b")
        server.delete(MODELS, A)
        await followed.until_names("b")
        server.put(MODELS, model_object("b", status={"specHash": "new"}))
        await eventually(lambda: followed.told[-1][0].spec_hash == "new", "a status")
        server.put(SLICES, slice_object(address("10.0.0.1", ready=False), model="b"))
        await eventually(
            lambda: [e.ready for e in followed.told[-1][0].endpoints] == [False], "pod"
        )
        server.put(SLICES, slice_object(address("10.0.0.1", ready=True), model="b"))
        await eventually(lambda: [e.ready for e in followed.told[-1][0].endpoints] == [True], "up")
        server.delete(SLICES, slice_object(model="b"))
        await eventually(lambda: followed.told[-1][0].endpoints == (), "gone")
        assert (server.lists(MODELS), server.lists(SLICES)) == (1, 1)


async def test_what_changes_nothing_for_the_router_is_not_told(server: ScriptedApiServer) -> None:
    async with following(server) as followed:
        await followed.until_watching()
        server.put(SLICES, slice_object(address("10.0.0.1"), model="unknown", name="other"))
        server.bookmark(MODELS)
        server.put(MODELS, A)
        server.put(MODELS, B)
        await followed.until_names("a", "b")
        assert [len(listing) for listing in followed.told] == [1, 2]


async def test_only_slices_of_models_are_asked_for_and_little_is_kept(
    server: ScriptedApiServer,
) -> None:
    async with access_to(server) as access:
        follower = follower_module.Follower(access, MODELS, "", lambda: None)
        task = asyncio.create_task(follower.run())
        await eventually(lambda: server.watching(MODELS) == 1, "it watches")
        server.put(MODELS, B)
        await eventually(lambda: len(follower.objects) == 2, "both")
        assert not any("managedFields" in o["metadata"] for o in follower.objects.values())
        task.cancel()
    async with following(server) as followed:
        await followed.until_watching()
        asked = [a for a in server.asked if a.path == SLICES]
        assert {a.query["labelSelector"] for a in asked} == {"serving.pumas.dev/model-uid"}


async def test_namespaces_are_asked_one_by_one(server: ScriptedApiServer) -> None:
    def of(plural: str, name: str) -> str:
        group, _, kind = plural.rpartition("/")
        return f"{group}/namespaces/{name}/{kind}"

    server.put(of(MODELS, "one"), model_object("x", namespace="one"))
    server.put(of(MODELS, "two"), model_object("y", namespace="two"))
    async with following(server, "one", "two") as followed:
        await followed.until_names("x", "y")
        await eventually(lambda: server.watching(of(SLICES, "two")) == 1, "it watches")
        wanted = {of(plural, name) for plural in (MODELS, SLICES) for name in ("one", "two")}
        assert {a.path for a in server.asked} == wanted


async def test_an_idle_router_asks_once_in_four_minutes(server: ScriptedApiServer) -> None:
    async with following(server) as followed:
        await followed.until_watching()
        assert len(server.asked) == 4
        for asked in server.watches(MODELS) + server.watches(SLICES):
            assert 210 <= int(asked.query["timeoutSeconds"]) <= 270
            assert asked.query["allowWatchBookmarks"] == "true"


# Going on


async def test_a_watch_that_ends_goes_on_from_the_last_version(server: ScriptedApiServer) -> None:
    async with following(server) as followed:
        await followed.until_watching()
        server.put(MODELS, B)
        await followed.until_names("a", "b")
        last = server.version
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
        last = server.version
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
        last, told = server.version, len(followed.told)
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
            server.version += 1
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
    async with server.serving(), following(server) as followed:
        server.put(MODELS, A)
        await followed.until_names("a")
        await followed.until_watching()
    # Entered again below, on the same port.
    async with following(server) as followed:
        async with server.serving():
            await followed.until_names("a")
            await followed.until_watching()
        server.put(MODELS, B)
        # No request can be seen while nobody answers, so some attempts' worth of time must pass.
        await asyncio.sleep(0.3)
        assert [len(listing) for listing in followed.told] == [1]
        async with server.serving():
            await followed.until_names("a", "b")
            assert [len(listing) for listing in followed.told] == [1, 2]


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


async def test_the_kernel_watches_over_connections(server: ScriptedApiServer) -> None:
    server.fail(MODELS, fall_silent())
    async with access_to(server) as access, access.get(MODELS, {}, 5) as answer:
        assert answer.connection is not None
        assert answer.connection.transport is not None
        sock = answer.connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10


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
            asyncio.get_running_loop().call_later(0.06, server.end, MODELS)
            await eventually(lambda: not server.watching(MODELS), "ended")
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
    original = follower_module._slim
    failures = [KeyError("a fault of ours")]

    def fails_once(item: dict[str, Any]) -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return original(item)

    monkeypatch.setattr(follower_module, "_slim", fails_once)
    async with following(server) as followed:
        await followed.until_names("a")
    (record,) = [r for r in caplog.records if r.exc_info]
    assert "following failed" in record.getMessage()


# Whom we are there


async def test_the_token_is_read_again(
    server: ScriptedApiServer, quick: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service account's token is replaced on disk; the library reads it at most once a minute."""
    clock = [datetime.datetime(2030, 1, 1)]
    told = SimpleNamespace(
        datetime=SimpleNamespace(now=lambda: clock[0]), timedelta=datetime.timedelta
    )
    monkeypatch.setattr(incluster_config, "datetime", told)
    token = tmp_path / "token"
    token.write_text("first")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", certifi.where())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    configuration = await access_module.load_configuration()
    assert configuration.host == "https://[fd00::1]:443"
    refresh = configuration.refresh_api_key_hook

    def refresh_for_the_scripted_server(those: Configuration) -> None:
        refresh(those)
        those.host = server.url

    configuration.refresh_api_key_hook = refresh_for_the_scripted_server

    async def asked_with() -> str:
        async with cluster_access(configuration) as access, access.get(MODELS, {}, 5):
            return server.asked[-1].token

    assert await asked_with() == "bearer first"
    token.write_text("second")
    assert await asked_with() == "bearer first"
    clock[0] += datetime.timedelta(minutes=2)
    assert await asked_with() == "bearer second"


@pytest.mark.parametrize("host", ["", "10.0.0.1"])
async def test_no_cluster_is_said_in_a_sentence(
    host: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = str(tmp_path / "nothing")
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", nothing)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", nothing)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if host:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(access_module.NoCluster) as refused:
        await access_module.load_configuration()
    assert str(refused.value).startswith("no cluster can be reached from here: ")
    assert str(tmp_path) not in str(refused.value)
