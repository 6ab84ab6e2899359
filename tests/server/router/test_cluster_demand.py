"""Demand that routers tell a cluster: one Lease a model, which all of them share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from pumas_server.router.steering import Unsteerable
from support.api_server import ScriptedApiServer, cut, refuse
from support.cluster_objects import model_object
from support.cluster_steered import (
    HOME,
    LEASE,
    LEASES,
    MODELS,
    lease,
    seen,
    sent,
    steering,
)
from support.told_clock import ToldClock


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    async with ScriptedApiServer().serving() as scripted:
        scripted.put(MODELS, model_object(replicas=0))
        yield scripted


async def test_the_first_demand_makes_the_lease(server: ScriptedApiServer) -> None:
    async with steering(server) as router:
        await router.renew(seen(server))
    assert sent(server) == [f"PATCH {LEASE}", f"POST {LEASES}"]
    made = lease(server)
    metadata = made.pop("metadata")
    assert made == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "spec": {
            "holderIdentity": "router-a",
            "leaseDurationSeconds": 30,
            "renewTime": "2030-01-01T00:00:00.000000Z",
        },
    }
    assert metadata["labels"] == {
        "serving.pumas.dev/purpose": "demand",
        "serving.pumas.dev/model-uid": "uid-of-tiny",
        "app.kubernetes.io/part-of": "pumas-serving",
    }
    assert metadata["annotations"] == {
        "serving.pumas.dev/model-namespace": "team",
        "serving.pumas.dev/model-name": "tiny",
    }


async def test_every_renewal_changes_it_whatever_the_clock_says(server: ScriptedApiServer) -> None:
    clock = ToldClock()
    versions = set()
    async with steering(server, clock=clock) as router:
        for seconds in (0, 15, -3600, 0.000001):
            clock.now += timedelta(seconds=seconds)
            await router.renew(seen(server))
            versions.add(lease(server)["metadata"]["resourceVersion"])
    assert len(versions) == 4


async def test_routers_share_a_lease_and_keep_each_others_request(
    server: ScriptedApiServer,
) -> None:
    model = seen(server)
    async with steering(server) as one, steering(server, "router-b") as other:
        await one.ask_again(model)
        word = lease(server)["metadata"]["annotations"]["serving.pumas.dev/load-request"]
        await other.renew(model)
    after = lease(server)
    assert after["metadata"]["annotations"]["serving.pumas.dev/load-request"] == word
    assert after["spec"]["holderIdentity"] == "router-b"


async def test_every_request_to_load_has_a_word_of_its_own(server: ScriptedApiServer) -> None:
    words = set()
    async with steering(server) as router:
        for _ in range(5):
            await router.ask_again(seen(server))
            words.add(lease(server)["metadata"]["annotations"]["serving.pumas.dev/load-request"])
    assert len(words) == 5
    assert all(len(word) == 32 for word in words)


@pytest.mark.parametrize("asking", [False, True])
async def test_who_is_slower_at_making_it_merges(asking: bool, server: ScriptedApiServer) -> None:
    """Another router makes the Lease between the look and the making."""
    model = seen(server)
    async with steering(server) as one, steering(server, "router-b") as other:

        async def another_first(request: Any) -> Any:
            await other.renew(model)
            return await server.carry_out(request)

        server.fail(LEASES, another_first, method="POST")
        await (one.ask_again if asking else one.renew)(model)
    assert lease(server)["spec"]["holderIdentity"] == "router-a"
    asked = "serving.pumas.dev/load-request" in lease(server)["metadata"]["annotations"]
    assert asked is asking
    assert sent(server)[-1] == f"PATCH {LEASE}"


async def test_a_lease_that_comes_and_goes_is_given_up(server: ScriptedApiServer) -> None:
    server.fail(LEASES, refuse(409, "AlreadyExists"), method="POST")
    async with steering(server) as router:
        with pytest.raises(Unsteerable, match="comes and goes"):
            await router.renew(seen(server))
    assert sent(server) == [f"PATCH {LEASE}", f"POST {LEASES}", f"PATCH {LEASE}"]


@pytest.mark.parametrize("ask", ["renew", "ask_again"])
@pytest.mark.parametrize("method", ["PATCH", "POST"])
@pytest.mark.parametrize(
    ("status", "word"),
    [
        (400, "could not"),
        (401, "could not"),
        (403, "forbids the router to {verb} leases in its own namespace"),
        (422, "could not"),
        (429, "could not"),
        (500, "not known"),
        (503, "not known"),
    ],
)
async def test_what_a_refused_demand_means(
    method: str, status: int, word: str, ask: str, server: ScriptedApiServer
) -> None:
    server.fail(LEASE if method == "PATCH" else LEASES, refuse(status), method=method)
    verb = {"PATCH": "patch", "POST": "create"}[method]
    async with steering(server) as router:
        with pytest.raises(Unsteerable, match=word.format(verb=verb)) as told:
            await getattr(router, ask)(seen(server))
    assert len(server.asked) == (1 if method == "PATCH" else 2)
    assert HOME not in str(told.value) and "127.0.0.1" not in str(told.value)


async def test_a_namespace_that_is_gone_is_said(server: ScriptedApiServer) -> None:
    server.fail(LEASES, refuse(404, "NotFound"), method="POST")
    async with steering(server) as router:
        with pytest.raises(Unsteerable, match="could not create leases"):
            await router.renew(seen(server))


@pytest.mark.parametrize("method", ["PATCH", "POST"])
@pytest.mark.parametrize("done", [False, True])
async def test_demand_without_an_answer_is_not_sent_again(
    method: str, done: bool, server: ScriptedApiServer
) -> None:
    path = LEASE if method == "PATCH" else LEASES
    async with steering(server) as router:
        if method == "PATCH":
            await router.renew(seen(server))
        server.asked.clear()
        server.fail(path, server.and_then(cut) if done else cut, method=method)
        with pytest.raises(Unsteerable, match="not known"):
            await router.ask_again(seen(server))
        assert sent(server)[-1] == f"{method} {path}"
        assert len(server.asked) == (1 if method == "PATCH" else 2)
        # The next one finds whatever there is.
        await router.ask_again(seen(server))
    assert "serving.pumas.dev/load-request" in lease(server)["metadata"]["annotations"]
