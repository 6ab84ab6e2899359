"""What a router asks of a cluster: replicas of the version that it saw, and demand by a Lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pumas_crds.demand import demand_lease
from pumas_crds.served_model import ServedModel
from pumas_server.router import cluster_access as access_module
from pumas_server.router.cluster_steering import ClusterSteering
from pumas_server.router.steering import Outdated, Steering, Unsteerable
from support.api_server import Fault, ScriptedApiServer, cut, hang, refuse
from support.cluster_following import access_to
from support.cluster_objects import model_object
from support.told_clock import ToldClock

HOME = "pumas-system"
MODELS = "/apis/serving.pumas.dev/v1alpha1/namespaces/team/servedmodels"
SCALE = f"{MODELS}/tiny/scale"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
NAME = demand_lease("uid-of-tiny")
LEASE = f"{LEASES}/{NAME}"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    async with ScriptedApiServer().serving() as scripted:
        scripted.put(MODELS, model_object(replicas=0))
        yield scripted


@asynccontextmanager
async def steering(
    server: ScriptedApiServer,
    identity: str = "router-a",
    clock: Callable[[], datetime] = lambda: datetime(2030, 1, 1, tzinfo=UTC),
) -> AsyncIterator[Steering]:
    async with access_to(server) as access:
        yield ClusterSteering(access, HOME, identity, clock)


def seen(server: ScriptedApiServer) -> ServedModel:
    """The model as a router reads it now."""
    return ServedModel.model_validate(server.store.find(MODELS, "tiny"))


def replicas(server: ScriptedApiServer) -> int:
    body = server.store.find(MODELS, "tiny")
    assert body is not None
    found: int = body["spec"]["replicas"]
    return found


def lease(server: ScriptedApiServer) -> dict[str, Any]:
    found = server.store.find(LEASES, NAME)
    assert found is not None
    return found


def sent(server: ScriptedApiServer) -> list[str]:
    return [f"{asked.method} {asked.path}" for asked in server.asked]


# Replicas


async def test_replicas_are_those_asked_for(server: ScriptedApiServer) -> None:
    async with steering(server) as router:
        await router.scale(seen(server), 3)
    assert replicas(server) == 3
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("PATCH", SCALE)
    assert asked.content_type == "application/merge-patch+json"
    assert asked.body == {"metadata": {"resourceVersion": "101"}, "spec": {"replicas": 3}}


async def test_a_model_that_changed_since_is_left_alone(server: ScriptedApiServer) -> None:
    model = seen(server)
    server.put(MODELS, model_object(replicas=0, suspend=True))
    async with steering(server) as router:
        with pytest.raises(Outdated):
            await router.scale(model, 1)
        assert replicas(server) == 0
        await router.scale(seen(server), 1)
    assert replicas(server) == 1


async def test_a_model_that_is_gone_or_another_by_now_is_left_alone(
    server: ScriptedApiServer,
) -> None:
    model = seen(server)
    server.delete(MODELS, model_object())
    async with steering(server) as router:
        with pytest.raises(Outdated):
            await router.scale(model, 1)
        server.put(MODELS, model_object(uid="another", replicas=0))
        with pytest.raises(Outdated):
            await router.scale(model, 1)
    assert replicas(server) == 0


async def test_of_two_routers_that_saw_the_same_one_scales(server: ScriptedApiServer) -> None:
    model = seen(server)
    async with steering(server) as one, steering(server, "router-b") as other:
        done = await asyncio.gather(
            one.scale(model, 1), other.scale(model, 1), return_exceptions=True
        )
    assert sorted(map(type, done), key=str) == sorted([type(None), Outdated], key=str)
    assert replicas(server) == 1


async def test_without_a_version_nothing_is_sent(server: ScriptedApiServer) -> None:
    model = seen(server)
    metadata = model.metadata.model_copy(update={"resource_version": ""})
    async with steering(server) as router:
        with pytest.raises(Outdated):
            await router.scale(model.model_copy(update={"metadata": metadata}), 1)
    assert server.asked == []


@pytest.mark.parametrize(
    ("status", "raised", "word"),
    [
        (404, Outdated, "404"),
        (409, Outdated, "409"),
        (302, Unsteerable, "could not"),
        (400, Unsteerable, "could not"),
        (401, Unsteerable, "could not"),
        (403, Unsteerable, "patch servedmodels/scale in the model's namespace"),
        (422, Unsteerable, "could not"),
        (429, Unsteerable, "could not"),
        (500, Unsteerable, "not known"),
        (503, Unsteerable, "not known"),
        (504, Unsteerable, "not known"),
    ],
)
async def test_what_a_refused_scale_means(
    status: int, raised: type[Exception], word: str, server: ScriptedApiServer
) -> None:
    server.fail(SCALE, refuse(status), method="PATCH")
    async with steering(server) as router:
        with pytest.raises(raised, match=word) as told:
            await router.scale(seen(server), 1)
    assert sent(server) == [f"PATCH {SCALE}"]
    assert raised is Outdated or str(told.value).endswith(".")
    assert not any(word in str(told.value) for word in ("127.0.0.1", "team", "/apis", "router-a"))


@pytest.mark.parametrize("fault", [cut, hang])
@pytest.mark.parametrize("done", [False, True])
async def test_a_scale_without_an_answer_is_not_sent_again(
    fault: Fault, done: bool, server: ScriptedApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "ANSWER_SECONDS", 0.3)
    server.fail(SCALE, server.and_then(fault) if done else fault, method="PATCH")
    async with steering(server) as router:
        with pytest.raises(Unsteerable, match="not known"):
            await router.scale(seen(server), 1)
    assert replicas(server) == done
    assert sent(server) == [f"PATCH {SCALE}"]


# Demand


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
