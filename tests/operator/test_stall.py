"""What waits without a word: whom to ask the Events about, and what they say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import Reason
from pumas_operator.stall import (
    JOB_PATIENCE_SECONDS,
    POD_PATIENCE_SECONDS,
    build_claim_events_query,
    build_events_query,
    build_stall,
    is_preparing,
    select_podless_jobs,
    select_silent_jobs,
    select_silent_pods,
    select_unbound_claims,
)
from support.kubernetes import RUNNING, condition, container, pod, terminated, waiting

MADE = datetime(2030, 1, 1, tzinfo=UTC)
LONG_AFTER = MADE + timedelta(hours=1)
CREATING = container("fetch", waiting("ContainerCreating"))
INITIALISING = container("server", waiting("PodInitializing"))


def job(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "j", "uid": "uid-of-j", "creationTimestamp": "2030-01-01T00:00:00Z"},
        "status": status,
    }


def made_by(uid: str) -> dict[str, Any]:
    body = pod()
    body["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": uid}]
    return body


def going(body: dict[str, Any]) -> dict[str, Any]:
    body["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:01Z"
    return body


def placed(**told: Any) -> dict[str, Any]:
    return pod(**told) | {"spec": {"nodeName": "node"}}


@pytest.mark.parametrize(
    ("one", "pods", "podless"),
    [
        (job(), [], True),
        (job(active=1), [made_by("another")], True),
        (job(active=1), [made_by("another"), made_by("uid-of-j")], False),
        (job(succeeded=1), [], False),
        (job(failed=1), [], False),
        (going(job()), [], False),
    ],
)
def test_jobs_that_are_to_have_a_pod_and_have_none(
    one: dict[str, Any], pods: list[dict[str, Any]], podless: bool
) -> None:
    assert list(select_podless_jobs([one], pods)) == ([one] if podless else [])
    assert list(select_silent_jobs([one], pods, LONG_AFTER)) == (["uid-of-j"] if podless else [])


@pytest.mark.parametrize(("less", "found"), [(0, ["uid-of-j"]), (1, [])])
def test_a_job_has_some_time_to_make_its_pod(less: int, found: list[str]) -> None:
    now = MADE + timedelta(seconds=JOB_PATIENCE_SECONDS - less)
    assert list(select_silent_jobs([job()], [], now)) == found


def test_what_does_not_say_when_it_was_made_is_new() -> None:
    young = job()
    del young["metadata"]["creationTimestamp"]
    assert list(select_silent_jobs([young], [], LONG_AFTER)) == []


@pytest.mark.parametrize(
    ("body", "preparing"),
    [
        (placed(), True),
        (placed(fetch=CREATING, server=INITIALISING), True),
        (placed(fetch=container("fetch"), server=INITIALISING), True),
        (pod(fetch=CREATING), False),
        (placed(fetch=CREATING, phase="Running"), False),
        (placed(fetch=container("fetch", RUNNING), server=INITIALISING), False),
        (placed(fetch=container("fetch", terminated()), server=INITIALISING), False),
        (placed(fetch=container("fetch", waiting("ImagePullBackOff"))), False),
        (placed(fetch=container("fetch", waiting("CrashLoopBackOff"))), False),
    ],
    ids=["silent", "volumes", "unsaid", "no node", "runs", "fetches", "fetched", "image", "loop"],
)
def test_a_pod_that_waits_for_its_volumes_or_network(body: dict[str, Any], preparing: bool) -> None:
    assert is_preparing(body) is preparing
    assert list(select_silent_pods([body], LONG_AFTER)) == (
        [body["metadata"]["uid"]] if preparing else []
    )


@pytest.mark.parametrize(("less", "silent"), [(0, True), (1, False)])
def test_a_pod_has_some_time_to_begin(less: int, silent: bool) -> None:
    now = MADE + timedelta(seconds=POD_PATIENCE_SECONDS - less)
    assert bool(list(select_silent_pods([placed(fetch=CREATING)], now))) is silent


def test_a_pod_that_goes_is_asked_nothing() -> None:
    assert list(select_silent_pods([going(placed(fetch=CREATING))], LONG_AFTER)) == []


UNBOUND = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def unplaced(message: str, *claims: str) -> dict[str, Any]:
    placing = condition("PodScheduled", "False", reason="Unschedulable", message=message)
    volumes: list[dict[str, Any]] = [{"name": "run", "emptyDir": {}}]
    volumes += [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod("p", conditions=[placing]) | {"spec": {"volumes": volumes}}


@pytest.mark.parametrize(
    ("body", "claims"),
    [
        (unplaced(UNBOUND, "weights"), ["weights"]),
        (unplaced(UNBOUND, "weights", "other"), ["weights", "other"]),
        (unplaced(UNBOUND), []),
        (unplaced("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "weights"), []),
        (going(unplaced(UNBOUND, "weights")), []),
        (placed(fetch=CREATING), []),
    ],
)
def test_claims_that_keep_a_pod_from_a_node(body: dict[str, Any], claims: list[str]) -> None:
    assert list(select_unbound_claims([body])) == [("uid-of-p", claim) for claim in claims]


def test_only_warnings_about_one_object_are_asked_for() -> None:
    request = build_events_query("team", "uid-1")
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/team/events")
    assert request.query == {
        "fieldSelector": "involvedObject.uid=uid-1,type=Warning",
        "limit": "50",
    }
    request = build_claim_events_query("team", "weights")
    assert request.query["fieldSelector"] == (
        "involvedObject.kind=PersistentVolumeClaim,involvedObject.name=weights,type=Warning"
    )


def event(message: str, at: str = "", time: str | None = None) -> dict[str, Any]:
    return {"message": message, "lastTimestamp": at or None, "eventTime": time}


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([], None),
        ([event("one")], "one"),
        ([event("old", "2030-01-01T00:00:01Z"), event("new", "2030-01-01T00:00:02Z")], "new"),
        ([event("new", "2030-01-01T00:00:02Z"), event("old", "2030-01-01T00:00:01Z")], "new"),
        (
            [event("new", time="2030-01-01T00:00:02.5Z"), event("old", "2030-01-01T00:00:01Z")],
            "new",
        ),
        ([event("two\nlines at 10.0.0.1:80")], "two lines at [redacted]"),
        ([event("")], "No reason."),
    ],
)
def test_the_newest_warning_is_the_reason(events: list[dict[str, Any]], told: str | None) -> None:
    fault = build_stall({"items": events}, Reason.REPLICA_FAILURE)
    wanted = None if told is None else Fault(reason=Reason.REPLICA_FAILURE, message=told)
    assert fault == wanted
