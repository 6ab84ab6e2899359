"""Replicas that a router asks of a cluster: for the version that it saw, and sent once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from pumas_server.router import cluster_access as access_module
from pumas_server.router.steering import Outdated, Unsteerable
from support.api_server import Fault, ScriptedApiServer, cut, hang, refuse
from support.cluster_objects import model_object
from support.cluster_steered import (
    MODELS,
    SCALE,
    replicas,
    seen,
    sent,
    steering,
)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    async with ScriptedApiServer().serving() as scripted:
        scripted.put(MODELS, model_object(replicas=0))
        yield scripted


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
