"""Rest, use and load requests of one model, against an API server in memory."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.demand import DEMAND, LOAD_REQUEST_ANNOTATION, PURPOSE_LABEL, RENEW_SECONDS
from pumas_crds.facts import Fault, PodDescriptor, PodState, RuntimeFacts
from pumas_crds.vocabulary import MODEL_UID_LABEL, Reason
from pumas_operator.kinds import AUTOSCALER, DEPLOYMENT, JOB, LEASE, POD, SERVED_MODEL
from pumas_operator.rest import FALL_BACK_SECONDS
from support.operator_world import HOME, TEAM, World

IDLE = 300.0
ON_DEMAND = {"onDemand": True}
NO_MODEL = {"error": {"reason": "NotAModel", "message": "no model"}}


@pytest.fixture
async def served() -> World:
    """A model on demand that serves, and was used until now."""
    world = World()
    world.apply(activation=ON_DEMAND)
    await world.settle()
    world.inspected()
    await world.settle()
    world.serving()
    says(world, busy=0)
    await world.settle()
    assert world.reason("Servable") == ("True", "Available")
    return world


def says(world: World, **told: Any) -> None:
    """What the pod's supervisor says from now on."""
    runtime = RuntimeFacts(slots=1)
    world.supervisors.descriptor = PodDescriptor(state=PodState.READY, runtime=runtime, **told)


def wanted(world: World) -> int:
    replicas: int = world.cluster.get(SERVED_MODEL, TEAM, "tiny")["spec"].get("replicas", 1)
    return replicas


def lease(world: World, load_request: str = "") -> None:
    """A router writes the Lease of demand."""
    annotations = {LOAD_REQUEST_ANNOTATION: load_request} if load_request else {}
    labels = {PURPOSE_LABEL: DEMAND, MODEL_UID_LABEL: "uid-tiny"}
    metadata = {"name": "d", "namespace": HOME, "labels": labels, "annotations": annotations}
    world.cluster.put(LEASE, {"metadata": metadata})


async def test_nobody_wants_it_and_it_rests(served: World) -> None:
    assert await served.reconcile() == IDLE
    served.clock += IDLE
    await served.settle()
    assert wanted(served) == 0
    assert served.cluster.get(DEPLOYMENT, TEAM, "tiny-serving")["spec"]["replicas"] == 0
    served.delete(POD, "tiny-serving-1")
    await served.settle()
    assert served.status()["loadState"] == "unloaded"
    assert served.status()["lastReplicas"] == 1
    assert served.status()["runtime"]["slots"] == 1, "what it was is still known"


async def test_a_pod_that_works_is_not_put_to_rest(served: World) -> None:
    served.clock += IDLE
    says(served, busy=1)
    assert await served.reconcile() == RENEW_SECONDS
    says(served, busy=0)
    assert await served.reconcile() == IDLE, "it was used just now"
    assert wanted(served) == 1


async def test_a_pod_that_says_nothing_is_not_put_to_rest(served: World) -> None:
    served.clock += IDLE
    served.supervisors.descriptor = None
    await served.reconcile()
    assert wanted(served) == 1


async def test_pods_that_inspect_or_are_over_keep_nothing_awake(served: World) -> None:
    lost = served.cluster.get(POD, TEAM, "tiny-serving-1")
    metadata = {**lost["metadata"], "name": "lost", "uid": "lost"}
    metadata["creationTimestamp"] = "2029-01-01T00:00:00Z"
    status = {"phase": "Failed", "reason": "Evicted"}
    served.cluster.put(POD, {"metadata": metadata, "status": status})
    described = served.supervisors.describe

    async def only_what_runs(address: str) -> PodDescriptor | None:
        return await described(address) if address else None

    served.supervisors.describe = only_what_runs  # type: ignore[method-assign]
    assert len(served.cluster.named(POD)) == 3, "an inspector's among them"
    await served.settle()
    served.clock += IDLE
    await served.settle()
    assert wanted(served) == 0


async def test_another_that_changes_it_first_is_right(served: World) -> None:
    served.clock += IDLE
    asked = served.supervisors.describe

    async def meanwhile(address: str) -> PodDescriptor | None:
        served.apply(activation=ON_DEMAND, replicas=3)
        return await asked(address)

    served.supervisors.describe = meanwhile  # type: ignore[method-assign]
    await served.reconcile()
    assert wanted(served) == 3


async def test_who_has_an_autoscaler_is_left_to_it(served: World) -> None:
    target = {"kind": "ServedModel", "name": "tiny"}
    metadata = {"name": "h", "namespace": TEAM}
    served.cluster.put(AUTOSCALER, {"metadata": metadata, "spec": {"scaleTargetRef": target}})
    served.clock += IDLE
    await served.reconcile()
    assert wanted(served) == 1


async def test_what_fails_for_a_while_rests_with_its_fault(served: World) -> None:
    fault = Fault(reason=Reason.OOM_KILLED, message="too much")
    served.delete(POD, "tiny-serving-1")
    served.serving(ready=False)
    served.supervisors.descriptor = PodDescriptor(state=PodState.FAILED, error=fault)
    await served.settle()
    assert served.status()["loadState"] == "failed"
    served.clock += FALL_BACK_SECONDS
    await served.settle()
    assert wanted(served) == 0
    served.delete(POD, "tiny-serving-1")
    await served.settle()
    assert served.status()["loadState"] == "unloaded"
    assert served.status()["error"] == {"reason": "OOMKilled", "message": "too much"}
    served.apply(activation=ON_DEMAND, replicas=1)
    await served.settle()
    assert "error" not in served.status(), "it is tried once more"


async def test_a_load_request_has_a_refused_file_read_again() -> None:
    world = World()
    world.apply(replicas=0)
    await world.settle()
    world.inspected(NO_MODEL)
    await world.settle()
    assert world.reason("Accepted") == ("False", "NotAModel")
    jobs = world.cluster.named(JOB)
    lease(world, "first")
    await world.settle()
    assert world.reason("Accepted") == ("Unknown", "Inspecting")
    assert "error" not in world.status()
    (again,) = set(world.cluster.named(JOB)) - set(jobs)
    world.inspected(NO_MODEL)
    await world.settle()
    assert world.reason("Accepted") == ("False", "NotAModel")
    await world.settle()
    assert again in world.cluster.named(JOB), "the same request is heeded once"
    lease(world, "second")
    await world.settle()
    world.inspected()
    await world.settle()
    assert world.reason("Accepted") == ("True", "Accepted")
    assert world.status()["loadRequest"] == "second"


async def test_a_load_request_changes_nothing_of_what_is_well(served: World) -> None:
    before = len(served.cluster.writes)
    lease(served, "first")
    await served.settle()
    assert served.cluster.writes[before:] == []
    assert "loadRequest" not in served.status(), "an older definition may not know it"


async def test_it_is_heeded_once_over_a_restart() -> None:
    world = World()
    world.apply(replicas=0)
    await world.settle()
    world.inspected(NO_MODEL)
    lease(world, "first")
    await world.settle()
    world.inspected(NO_MODEL)
    await world.settle()
    jobs = world.cluster.named(JOB)
    world.restart()
    await world.settle()
    assert world.cluster.named(JOB) == jobs
    assert world.reason("Accepted") == ("False", "NotAModel")
