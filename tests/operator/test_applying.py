"""Children are made, claimed, repaired and never taken from anybody else."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from pumas_operator.applying import Changed
from pumas_operator.cluster import Refused
from pumas_operator.kinds import (
    DEPLOYMENT,
    SECRET,
    SERVICE,
    Kind,
)
from pumas_operator.objects import Key
from pumas_operator.requests import Request
from support.operator_world import CHILDREN, TEAM, World


@pytest.fixture
def world() -> World:
    return World()


async def test_everything_posted_is_claimed(world: World) -> None:
    await world.served()
    for kind, name in CHILDREN.items():
        entries = world.cluster.get(kind, TEAM, name)["metadata"]["managedFields"]
        assert [e["operation"] for e in entries if e["manager"] == "pumas-operator"] == ["Apply"]


def _break(world: World, kind: Kind) -> None:
    body = deepcopy(world.cluster.get(kind, TEAM, CHILDREN[kind]))
    match kind.name:
        case "Deployment":
            body["spec"]["replicas"] = 7
        case "Service":
            body["spec"]["selector"] = {"app": "another"}
        case "PodDisruptionBudget":
            body["spec"]["maxUnavailable"] = 0
        case "NetworkPolicy":
            body["spec"]["ingress"] = []
        case _:
            body["data"] = {}
    world.cluster.put(kind, body)


@pytest.mark.parametrize("kind", [k for k in CHILDREN if k is not SECRET], ids=lambda k: k.name)
async def test_drift_is_repaired(world: World, kind: Kind) -> None:
    await world.served()
    wanted = world.cluster.get(kind, TEAM, CHILDREN[kind])["spec"]
    _break(world, kind)
    await world.settle()
    assert world.cluster.get(kind, TEAM, CHILDREN[kind])["spec"] == wanted


@pytest.mark.parametrize("kind", [k for k in CHILDREN if k is not SECRET], ids=lambda k: k.name)
async def test_a_deleted_child_comes_back(world: World, kind: Kind) -> None:
    await world.served()
    world.delete(kind, CHILDREN[kind])
    await world.settle()
    assert world.cluster.named(kind) == [CHILDREN[kind]]


async def test_a_secret_that_was_emptied_is_filled_by_the_next_process(world: World) -> None:
    await world.served()
    wanted = world.cluster.get(SECRET, TEAM, CHILDREN[SECRET])["data"]
    _break(world, SECRET)
    world.restart()
    await world.settle()
    assert world.cluster.get(SECRET, TEAM, CHILDREN[SECRET])["data"] == wanted


@pytest.mark.parametrize("kind", list(CHILDREN), ids=lambda kind: kind.name)
async def test_a_strangers_object_is_never_touched(world: World, kind: Kind) -> None:
    stranger = {"metadata": {"name": CHILDREN[kind], "namespace": TEAM}, "spec": {"theirs": True}}
    world.cluster.put(kind, stranger)
    world.objects.remove(kind, Key(TEAM, CHILDREN[kind]), "")
    before = world.cluster.get(kind, TEAM, CHILDREN[kind])
    world.apply()
    await world.settle()
    world.inspected()
    await world.settle()
    assert world.cluster.get(kind, TEAM, CHILDREN[kind]) == before
    assert world.reason("Progressing") == ("False", "NotOwned")
    assert f"{kind.name} {CHILDREN[kind]}" in world.status()["error"]["message"]
    world.delete(kind, CHILDREN[kind])
    await world.settle()
    assert world.reason("Progressing") == ("True", "Starting")


async def test_an_object_that_became_a_strangers_meanwhile_is_not_written_over(
    world: World,
) -> None:
    await world.served()
    stranger = {"name": CHILDREN[SERVICE], "namespace": TEAM, "uid": "theirs"}
    tell, world.cluster.changed = world.cluster.changed, lambda kind, body: None
    world.objects.put(SERVICE, {**_held(world, SERVICE), "spec": {"selector": {}}})
    before = world.cluster.put(SERVICE, {"metadata": stranger, "spec": {"theirs": True}})
    with pytest.raises(Changed, match="Service tiny-serving"):
        await world.reconcile()
    assert world.cluster.get(SERVICE, TEAM, CHILDREN[SERVICE]) == before
    tell(SERVICE, before)
    world.cluster.changed = tell
    await world.settle()
    assert world.reason("Progressing") == ("False", "NotOwned")


def _held(world: World, kind: Kind) -> dict[str, Any]:
    """What the operator remembers, as if it had changed."""
    held = world.objects.get(kind, Key(TEAM, CHILDREN[kind]))
    assert held is not None
    body = json.loads(json.dumps(held))
    version = str(world.cluster._version + 1)
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


async def test_a_conflict_while_claiming_is_read_again(world: World) -> None:
    """A controller writes the status of what was just posted."""
    asked = iter([True])

    def conflict(request: Request) -> Refused | None:
        claim = request.method == "PATCH" and "/poddisruptionbudgets/" in request.path
        return Refused(409, "Conflict", "modified") if claim and next(asked, False) else None

    world.apply()
    await world.settle()
    world.inspected()
    world.cluster.refuse = conflict
    await world.settle()
    assert world.cluster.named(DEPLOYMENT) == ["tiny-serving"]


async def test_a_change_between_reading_and_writing_is_raised(world: World) -> None:
    await world.served()
    _break(world, SERVICE)
    world.cluster.refuse = lambda request: (
        Refused(409, "Conflict", "modified") if request.method == "PATCH" else None
    )
    with pytest.raises(Changed, match="Service tiny-serving"):
        await world.reconcile()


async def test_a_value_that_the_server_writes_otherwise_settles(world: World) -> None:
    await world.served()
    watch = world.cluster.changed

    def normalised(kind: Kind, body: dict[str, Any]) -> None:
        if kind is DEPLOYMENT:
            held = world.cluster.get(DEPLOYMENT, TEAM, "tiny-serving")
            held["spec"]["progressDeadlineSeconds"] = body["spec"]["progressDeadlineSeconds"] = 1
        watch(kind, body)

    world.cluster.changed = normalised
    world.apply(engine={"contextTokens": 256})
    await world.settle()
    assert world.cluster.get(DEPLOYMENT, TEAM, "tiny-serving")["spec"]["replicas"] == 1
