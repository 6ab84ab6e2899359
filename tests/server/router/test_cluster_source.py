"""What the router is told of a cluster: everything or nothing, then every change that matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from pumas_crds.engine_key import engine_key
from pumas_server.router.app import Router
from pumas_server.router.cluster_source import ClusterSource
from pumas_server.router.listener import listen
from pumas_server.router.server import serving
from support.api_server import (
    MODELS,
    SLICES,
    ScriptedApiServer,
    held,
)
from support.cluster_following import SECRET, access_to, following
from support.cluster_objects import address, model_object, slice_object
from support.eventually import eventually
from support.routers import TEST_SETTINGS, chat_operation
from support.serving_pods import ServingPod
from support.upstream import Conversation

A, B = model_object("a"), model_object("b")


@asynccontextmanager
async def routing(
    server: ScriptedApiServer,
) -> AsyncIterator[tuple[Router, aiohttp.ClientSession]]:
    """A router over a cluster, and a client for it."""
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with access_to(server) as access:
        router = Router(ClusterSource(access, (), SECRET), TEST_SETTINGS)
        async with serving(router, listener), aiohttp.ClientSession(url) as client:
            yield router, client


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    async with ScriptedApiServer().serving() as scripted:
        scripted.put(MODELS, A)
        yield scripted


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


async def test_only_slices_of_models_are_asked_for(server: ScriptedApiServer) -> None:
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


# The router over it


def pod_slice(pod: ServingPod, entry: dict[str, Any]) -> dict[str, Any]:
    ports = (pod.engine.port, pod.supervisor.port)
    return slice_object(entry, model="a", engine=ports[0], supervisor=ports[1])


async def test_a_router_is_ready_once_everything_was_listed_and_stays_so() -> None:
    server, gate = ScriptedApiServer(), asyncio.Event()
    async with AsyncExitStack() as stack:
        async with server.serving():
            server.fail(SLICES, held(gate, server._list))
            router, client = await stack.enter_async_context(routing(server))

            async def status(path: str) -> int:
                async with client.get(path) as answer:
                    return answer.status

            await eventually(lambda: server.watching(MODELS), "models are watched")
            assert (await status("/readyz"), await status("/healthz")) == (503, 200)
            gate.set()
            await eventually(lambda: router.workers.listed, "it was listed")
            assert await status("/readyz") == 200
        assert (await status("/readyz"), await status("/healthz")) == (200, 200)


async def test_a_change_of_an_endpoint_is_acted_upon_within_a_second(
    server: ScriptedApiServer,
) -> None:
    """From the API server's change to the choice: the pod is asked what it is in between."""
    clock = asyncio.get_running_loop().time
    async with ServingPod("pod").serving() as pod, routing(server) as (router, client):

        def put(**conditions: bool) -> None:
            entry = address("127.0.0.1", **conditions)
            server.put(SLICES, pod_slice(pod, entry))

        def callable_now() -> bool:
            return any(row.targets for row in router.workers.catalog.rows)

        await eventually(lambda: server.watching(SLICES), "it watches")
        took = []
        for _ in range(5):
            for ready in (True, False):
                put(ready=ready)
                changed = clock()
                await eventually(lambda wanted=ready: callable_now() is wanted, "it acts", 1)  # type: ignore[misc]
                took.append(clock() - changed)
        put(ready=True)
        await eventually(callable_now, "it can be called")
        async with client.post("/v1/model-operations", json=chat_operation(model="a")) as answer:
            assert answer.status == 200
        wanted = engine_key(SECRET, "uid-of-a")
        assert pod.engine.seen[0].headers["authorization"] == f"Bearer {wanted}"
        put(ready=True, terminating=True)
        await eventually(lambda: not callable_now(), "it is left alone", 1)
        assert max(took) < 1


async def test_a_deleted_models_calls_end(server: ScriptedApiServer) -> None:
    async with ServingPod("pod").serving() as pod, routing(server) as (router, client):
        left = asyncio.Event()

        async def silent(talk: Conversation) -> None:
            await talk.caller_left()
            left.set()

        pod.engine.script = silent
        server.put(SLICES, pod_slice(pod, address("127.0.0.1")))
        await eventually(lambda: any(r.targets for r in router.workers.catalog.rows), "callable")
        call = asyncio.create_task(
            client.post("/v1/model-operations", json=chat_operation(model="a"))
        )
        await eventually(lambda: pod.engine.seen, "it is called")
        server.delete(MODELS, A)
        async with asyncio.timeout(5):
            assert (await call).status == 502
            await left.wait()
