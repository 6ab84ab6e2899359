"""What a plan observes on its way: refusals, pods, what only Events tell, verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumas_crds.facts import Fault, PodDescriptor, PodState
from pumas_crds.vocabulary import Reason
from pumas_operator.kinds import DEPLOYMENT
from pumas_operator.plan import Snapshot, is_inspector
from support.kubernetes import condition, container, pod, waiting
from support.snapshots import (
    BAD,
    FAR,
    FAR_PROFILE,
    FILE,
    NOT_ALLOWED,
    OLD,
    PROFILE,
    SERVES,
    UNREADABLE,
    inspector,
    job,
    known,
    model,
    plan,
    serving,
)


@pytest.mark.parametrize(
    ("there", "profile_found", "refused"),
    [
        (Snapshot(OLD, PROFILE), True, None),
        (Snapshot(OLD, None), False, None),
        (Snapshot(OLD, None, UNREADABLE), True, Reason.INVALID_SPEC),
        (Snapshot(NOT_ALLOWED, PROFILE), True, Reason.SOURCE_NOT_ALLOWED),
        (Snapshot(FAR, PROFILE), True, Reason.ENDPOINT_NOT_ALLOWED),
        (Snapshot(FAR, FAR_PROFILE), True, None),
        (Snapshot(FAR, None), False, None),
    ],
)
def test_refusals_are_observed(
    there: Snapshot, profile_found: bool, refused: Reason | None
) -> None:
    observed = plan(there).observed
    assert observed.profile_found is profile_found
    assert (observed.refused and observed.refused.reason) == refused
    assert observed.external is (there.model is FAR)


def test_pods_are_current_by_the_template_that_is_wanted() -> None:
    pods = (serving(SERVES[DEPLOYMENT], "old"), inspector(job(OLD)))
    assert [is_inspector(each) for each in pods] == [False, True]
    same = plan(Snapshot(known(OLD), PROFILE, children=SERVES, pods=pods)).observed
    assert [pod.current for pod in same.pods] == [True], "an inspector serves nobody"
    changed = model(replicas=2, engine={"contextTokens": 256})
    other = plan(Snapshot(known(OLD, changed), PROFILE, children=SERVES, pods=pods)).observed
    assert [pod.current for pod in other.pods] == [False]
    assert other.spec_hash != same.spec_hash
    wished_away = replace(Snapshot(known(OLD), PROFILE, pods=pods), duplicate=True)
    assert [pod.current for pod in plan(wished_away).observed.pods] == [False]


def test_a_pod_is_observed_with_what_it_says_itself() -> None:
    body = serving(SERVES[DEPLOYMENT])
    told = PodDescriptor(state=PodState.READY)
    there = Snapshot(known(OLD), PROFILE, pods=(body,), descriptors={"uid-of-pod": told})
    [observed] = plan(there).observed.pods
    assert observed.descriptor == told


MOUNT = Fault(reason=Reason.CREATE_CONTAINER_CONFIG_ERROR, message="MountVolume.SetUp failed.")
NO_CLASS = Fault(reason=Reason.UNSCHEDULABLE, message="storageclass not found.")
UNPLACED = condition("PodScheduled", "False", message="0/1 nodes are available.")


@pytest.mark.parametrize(
    ("body", "stall", "waits", "message"),
    [
        (pod("p"), MOUNT, Reason.CREATE_CONTAINER_CONFIG_ERROR, "MountVolume.SetUp failed."),
        (
            pod("p", conditions=[UNPLACED]),
            NO_CLASS,
            Reason.UNSCHEDULABLE,
            "storageclass not found.",
        ),
        (pod("p", conditions=[UNPLACED]), MOUNT, Reason.UNSCHEDULABLE, "0/1 nodes are available."),
        (pod("p"), None, None, ""),
    ],
)
def test_events_speak_where_a_pod_is_silent_or_says_less(
    body: dict[str, Any], stall: Fault | None, waits: Reason | None, message: str
) -> None:
    stalled = {} if stall is None else {"uid-of-p": stall}
    there = Snapshot(known(OLD), PROFILE, pods=(body,), stalled=stalled)
    [observed] = plan(there).observed.pods
    assert (observed.waiting, observed.message) == (waits, message)


QUOTA = Fault(reason=Reason.REPLICA_FAILURE, message="exceeded quota.")
PULL = Fault(reason=Reason.IMAGE_PULL_BACK_OFF, message="no such image")


@pytest.mark.parametrize(
    ("pods", "stalled", "fault"),
    [
        ((), {}, None),
        ((), {"of-job": QUOTA}, QUOTA),
        ((pod("inspector"),), {"of-pod": MOUNT}, MOUNT),
        ((pod("inspector", inspect=container("inspect", waiting("ErrImagePull", "no such image"))),), {"of-pod": MOUNT}, PULL),
        ((pod("inspector", conditions=[UNPLACED]),), {"of-pod": NO_CLASS}, NO_CLASS),
    ],
)  # fmt: skip
def test_why_an_inspection_does_not_run(
    pods: tuple[dict[str, Any], ...], stalled: dict[str, Fault], fault: Fault | None
) -> None:
    looks = job(OLD)
    uids = {"of-job": looks["metadata"]["uid"], "of-pod": "uid-of-inspector"}
    for body in pods:
        body["metadata"] |= {
            part: inspector(looks)["metadata"][part] for part in ("labels", "ownerReferences")
        }
    told = {uids[who]: each for who, each in stalled.items()}
    there = Snapshot(OLD, PROFILE, jobs=(looks,), pods=pods, stalled=told)
    observed = plan(there).observed.inspection
    assert observed is not None
    assert (observed.result, observed.fault) == (None, fault)


def test_a_verdict_outweighs_what_events_say() -> None:
    looks = job(OLD)
    pods = (inspector(looks, {"file": FILE}),)
    there = Snapshot(OLD, PROFILE, jobs=(looks,), pods=pods, stalled={"uid-of-inspector": MOUNT})
    observed = plan(there).observed.inspection
    assert observed is not None and observed.result is not None and observed.fault is None


def test_the_verdict_of_another_jobs_pod_is_not_taken() -> None:
    other = job(BAD)
    pods = (inspector(other, {"file": FILE}),)
    made = plan(Snapshot(OLD, PROFILE, jobs=(job(OLD), other), pods=pods))
    assert made.children == ()
    assert made.observed.inspection is not None and made.observed.inspection.result is None
