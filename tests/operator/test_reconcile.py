"""One model from its first event to its last, against an API server in memory."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.facts import PodDescriptor, PodState
from pumas_operator.cluster import Refused, Unreachable
from pumas_operator.kinds import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    EVENT,
    JOB,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVED_MODEL,
    SERVICE,
    SERVING_PROFILE,
)
from pumas_operator.objects import Key
from pumas_operator.requests import Request
from support.cluster_objects import model_object
from support.fake_cluster import Died
from support.operator_world import CHILDREN, FILE, HOME, KEY, SOURCE, TEAM, World


@pytest.fixture
def world() -> World:
    return World()


async def test_a_file_is_inspected_before_any_pod_is_made(world: World) -> None:
    world.apply()
    await world.settle()
    assert len(world.cluster.named(JOB)) == 1
    assert world.cluster.named(DEPLOYMENT) == world.cluster.named(SECRET) == []
    assert world.reason("Accepted") == ("Unknown", "Inspecting")
    world.inspected()
    await world.settle()
    assert {kind: world.cluster.named(kind) for kind in CHILDREN} == {
        kind: [name] for kind, name in CHILDREN.items()
    }
    assert world.reason("Accepted") == ("True", "Accepted")
    world.serving()
    await world.settle()
    assert world.reason("Servable") == ("True", "Available")
    assert world.status()["observedGeneration"] == 1


async def test_what_is_as_it_should_be_costs_no_request(world: World) -> None:
    await world.served()
    told = PodDescriptor(state=PodState.READY)
    world.supervisors.descriptor = told
    before = len(world.cluster.requests)
    for _ in range(3):
        await world.reconcile()
    assert world.cluster.requests[before:] == []


async def test_a_restart_writes_nothing(world: World) -> None:
    await world.served()
    before = len(world.cluster.writes)
    world.restart()
    await world.settle()
    assert world.cluster.writes[before:] == []


async def test_a_bad_new_spec_rolls_nothing(world: World) -> None:
    await world.served()
    before = world.cluster.get(DEPLOYMENT, TEAM, "tiny-serving")
    world.apply(source={"huggingFace": {"repo": "team/other", "file": "other.gguf"}})
    await world.settle()
    assert len(world.cluster.named(JOB)) == 1, "the old Job is gone, the new one looks"
    world.inspected({"error": {"reason": "NotAModel", "message": "other.gguf: no."}})
    await world.settle()
    assert world.cluster.get(DEPLOYMENT, TEAM, "tiny-serving") == before
    assert world.reason("Accepted") == ("False", "NotAModel")
    assert world.reason("Servable") == ("True", "Available")
    world.apply()
    await world.settle()
    world.inspected()
    await world.settle()
    assert world.reason("Accepted") == ("True", "Accepted")


async def test_serving_can_be_stopped_though_the_new_spec_is_bad(world: World) -> None:
    await world.served()
    world.apply(profile="nonesuch", suspend=True)
    await world.settle()
    assert world.cluster.get(DEPLOYMENT, TEAM, "tiny-serving")["spec"]["replicas"] == 0
    assert world.reason("Accepted") == ("False", "ProfileNotFound")


async def test_a_change_of_the_engine_alone_is_not_inspected(world: World) -> None:
    await world.served()
    world.delete(JOB, world.cluster.named(JOB)[0])
    before = world.cluster.get(DEPLOYMENT, TEAM, "tiny-serving")["spec"]["template"]
    world.apply(engine={"contextTokens": 256})
    await world.settle()
    assert world.cluster.named(JOB) == []
    assert world.cluster.get(DEPLOYMENT, TEAM, "tiny-serving")["spec"]["template"] != before


async def test_an_external_server_leaves_nothing_of_ours(world: World) -> None:
    await world.served()
    body = world.cluster.get(SERVED_MODEL, TEAM, "tiny")
    spec = {"runtime": "external", "endpoint": {"url": "http://far.example"}}
    world.cluster.put(SERVED_MODEL, {**body, "spec": spec})
    await world.settle()
    for kind in (SERVICE, DISRUPTION_BUDGET, NETWORK_POLICY, DEPLOYMENT, JOB):
        assert world.cluster.named(kind) == []


async def test_of_two_models_with_one_name_the_older_is_served(world: World) -> None:
    await world.served()
    young = model_object("young", uid="uid-young", alias="tiny", created="2031-01-01T00:00:00Z")
    world.cluster.put(SERVED_MODEL, young)
    await world.settle(Key(TEAM, "young"))
    assert world.reason("Accepted", "young") == ("False", "DuplicateIdentity")
    assert world.cluster.named(DEPLOYMENT) == ["tiny-serving"]
    world.delete(SERVED_MODEL, "tiny")
    await world.settle(Key(TEAM, "young"))
    assert world.reason("Accepted", "young") == ("False", "SourceNotAllowed")


async def test_events_are_recorded_once_a_change(world: World) -> None:
    await world.served()
    names = world.cluster.named(EVENT)
    told = [world.cluster.get(EVENT, TEAM, name)["reason"] for name in names]
    assert sorted(told) == [
        "Accepted",
        "Available",
        "Inspecting",
        "Inspecting",
        "RolledOut",
        "Starting",
    ]
    world.restart()
    await world.settle()
    assert world.cluster.named(EVENT) == names


async def test_an_unreadable_model_is_told_and_its_pods_stay(world: World) -> None:
    await world.served()
    body = world.cluster.get(SERVED_MODEL, TEAM, "tiny")
    world.cluster.put(SERVED_MODEL, {**body, "spec": body["spec"] | {"future": 1}})
    await world.settle()
    assert world.reason("Accepted") == ("False", "InvalidSpec")
    assert "future" in world.status()["error"]["message"]
    assert world.cluster.named(DEPLOYMENT) == ["tiny-serving"]


async def test_a_profile_that_cannot_be_read_is_no_missing_one(world: World) -> None:
    metadata = {"name": "default", "namespace": HOME}
    world.cluster.put(SERVING_PROFILE, {"metadata": metadata, "spec": {"future": 1}})
    world.apply()
    await world.settle()
    assert world.reason("Accepted") == ("False", "InvalidSpec")
    assert "ServingProfile default" in world.status()["error"]["message"]


@pytest.mark.parametrize("status", [404, 409])
async def test_a_model_that_goes_meanwhile_is_no_fault(world: World, status: int) -> None:
    def gone(request: Request) -> Refused | None:
        return Refused(status, "Gone", "gone") if request.path.endswith("/status") else None

    world.apply()
    world.cluster.refuse = gone
    await world.reconcile()
    assert "status" not in world.cluster.get(SERVED_MODEL, TEAM, "tiny")


async def test_a_model_that_changes_meanwhile_gets_no_status_of_what_it_was(world: World) -> None:
    """Made anew under its name before the status is written: the answer to another question."""
    world.apply()
    asked = iter([True])

    def remade(request: Request) -> Refused | None:
        if request.path.endswith("/status") and next(asked, False):
            world.delete(SERVED_MODEL, "tiny")
            world.delete(JOB, world.cluster.named(JOB)[0])
            world.cluster.put(SERVED_MODEL, model_object("tiny", uid="another", source=SOURCE))
        return None

    world.cluster.refuse = remade
    await world.reconcile()
    assert "status" not in world.cluster.get(SERVED_MODEL, TEAM, "tiny")
    await world.settle()
    assert world.reason("Accepted") == ("Unknown", "Inspecting")


async def test_one_that_is_being_deleted_is_left(world: World) -> None:
    body = world.apply()
    body["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:01Z"
    world.cluster.put(SERVED_MODEL, body)
    assert await world.reconcile() is None
    assert world.cluster.requests == []


async def test_what_the_cluster_refuses_is_told_and_tried_again(world: World) -> None:
    def quota(request: Request) -> Refused | None:
        refused = request.method == "POST" and request.path.endswith("/deployments")
        return Refused(403, "Forbidden", "exceeded quota: team") if refused else None

    world.apply()
    await world.settle()
    world.inspected()
    world.cluster.refuse = quota
    again = await world.reconcile()
    assert again is not None
    assert again <= 15
    assert world.reason("Progressing") == ("True", "ApplyRefused")
    assert "exceeded quota: team" in world.status()["error"]["message"]
    world.cluster.refuse = lambda request: None
    await world.settle()
    assert world.reason("Progressing") == ("True", "Starting")


async def test_an_api_server_that_is_away_changes_nothing(world: World) -> None:
    await world.served()
    world.apply(engine={"contextTokens": 256})
    world.cluster.away = True
    with pytest.raises(Unreachable):
        await world.reconcile()
    world.cluster.away = False
    await world.settle()
    assert world.reason("Ready")[0] == "False"


async def test_a_job_without_pods_is_explained_by_events(world: World) -> None:
    world.apply()
    await world.settle()
    [job] = world.cluster.named(JOB)
    uid = world.cluster.get(JOB, TEAM, job)["metadata"]["uid"]
    event: dict[str, Any] = {
        "metadata": {"name": "e1", "namespace": TEAM},
        "involvedObject": {"uid": uid},
        "message": "Error creating: pods is forbidden: exceeded quota",
        "lastTimestamp": "2030-01-01T00:00:02Z",
    }
    world.cluster.objects[EVENT].clear()
    world.cluster.put(EVENT, event)
    world.now = world.now.replace(minute=1)
    await world.settle()
    assert world.reason("Progressing") == ("True", "ReplicaFailure")
    assert "exceeded quota" in world.status()["error"]["message"]


async def test_a_pod_that_starts_is_asked_again_soon(world: World) -> None:
    world.apply()
    await world.settle()
    world.inspected()
    await world.settle()
    world.serving(ready=False)
    told = {"reason": "EngineFailed", "message": "out of luck"}
    world.supervisors.descriptor = PodDescriptor.model_validate(
        {"state": "failed", "error": told, "spec_hash": "x"}
    )
    again = await world.reconcile()
    assert again == 3
    assert world.reason("Progressing") == ("True", "EngineFailed")
    assert world.status()["error"] == told


def _end(world: World) -> dict[str, Any]:
    """What is there in the end, without what tells one history from another."""
    found: dict[str, Any] = {}
    for kind in (*CHILDREN, JOB):
        for (_, name), body in world.cluster.objects.get(kind, {}).items():
            metadata = {p: body["metadata"].get(p) for p in ("labels", "ownerReferences")}
            found[f"{kind.name} {name}"] = (metadata, body.get("spec"), body.get("data"))
    status = dict(world.status())
    found["status"] = [(c["type"], c["status"], c["reason"]) for c in status.pop("conditions")]
    return found | {"file": status["file"], "hash": status["specHash"]}


async def _live(world: World, step: Any) -> None:
    """A life in three steps; `step` reconciles, in whatever way."""
    world.apply()
    await step()
    world.inspected()
    await step()
    world.serving()
    await step()


async def _requests_of_a_life() -> int:
    world = World()
    await _live(world, world.settle)
    return len(world.cluster.requests)


@pytest.mark.parametrize("when", ["dies_before", "dies_after"])
async def test_killed_at_any_request_the_end_is_the_same(when: str) -> None:
    undisturbed = World()
    await _live(undisturbed, undisturbed.settle)
    wanted = _end(undisturbed)
    for number in range(await _requests_of_a_life()):
        world = World()
        setattr(world.cluster, when, number)

        async def step(world: World = world) -> None:
            try:
                await world.settle()
            except Died:
                world.restart()
                await world.settle()

        await _live(world, step)
        assert _end(world) == wanted, (when, number)


async def test_a_pod_that_is_gone_is_forgotten(world: World) -> None:
    await world.served()
    world.delete(POD, "tiny-serving-1")
    await world.settle()
    assert world.reason("Servable") == ("False", "NoEndpoint")
    assert world.status()["file"]["architecture"] == FILE["architecture"]
    assert await world.reconcile(Key(TEAM, "nobody")) is None
    assert KEY.name == "tiny"
