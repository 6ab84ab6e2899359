"""Deployments and Jobs as an API server gives them."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.facts import Fault, FileFacts, Inspection
from pumas_crds.vocabulary import Reason
from pumas_operator.observation import InspectionObservation
from pumas_operator.workload_truth import observe_inspection, observe_workload
from support.kubernetes import RUNNING, condition, pod, terminated, waiting

QUOTA = 'pods "tiny-serving-abc" is forbidden: exceeded quota: small, requested: cpu=4, used: cpu=1'
FOUND = Inspection(file=FileFacts(architecture="llama"))
UNREACHABLE = Inspection(error=Fault(reason=Reason.SOURCE_UNREACHABLE, message="gone"))


def told(inspection: Inspection) -> str:
    return inspection.model_dump_json(by_alias=True, exclude_none=True)


def workload(*conditions: dict[str, Any]) -> Fault | None:
    return observe_workload({"status": {"conditions": list(conditions)}})


def test_a_quota_or_an_admission_policy_in_the_clusters_own_sentence() -> None:
    failure = condition("ReplicaFailure", "True", reason="FailedCreate", message=QUOTA)
    deadline = condition("Progressing", "False", reason="ProgressDeadlineExceeded")
    expected = Fault(reason=Reason.REPLICA_FAILURE, message=QUOTA)
    assert workload(failure) == workload(deadline, failure) == expected


def test_a_failure_without_a_sentence() -> None:
    fault = workload(condition("ReplicaFailure", "True"))
    assert fault is not None and fault.message == "The cluster refuses to make pods."


def test_a_rollout_that_takes_too_long() -> None:
    fault = workload(condition("Progressing", "False", reason="ProgressDeadlineExceeded"))
    assert fault is not None and fault.reason is Reason.PROGRESS_DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [condition("ReplicaFailure", "False", message=QUOTA)],
        [condition("Progressing", "True", reason="ReplicaSetUpdated")],
    ],
)
def test_nothing_to_report(conditions: list[dict[str, Any]]) -> None:
    assert workload(*conditions) is None


def inspect(state: dict[str, Any], name: str = "a", created: str = "1", **rest: Any) -> Any:
    return pod(name, inspect={"state": state}, created=created, **rest)


def test_a_verdict() -> None:
    for verdict, code in ((FOUND, 0), (UNREACHABLE, 1)):
        pods = [inspect(terminated(code, told(verdict)))]
        assert observe_inspection({}, pods) == InspectionObservation(result=verdict)


def test_the_newest_verdict_counts() -> None:
    pods = [
        inspect(terminated(0, told(FOUND)), "b", "2"),
        inspect(terminated(1, told(UNREACHABLE)), "a", "1"),
        inspect(RUNNING, "c", "3"),
    ]
    assert observe_inspection({}, pods).result == FOUND


def test_a_job_that_has_come_to_nothing_yet() -> None:
    assert observe_inspection({}, []) == InspectionObservation()
    assert observe_inspection({}, [inspect(RUNNING)]) == InspectionObservation()


def test_why_its_pod_does_not_run() -> None:
    scheduled = condition("PodScheduled", "False", message="0/1 nodes are available.")
    fault = observe_inspection({}, [inspect({}, conditions=[scheduled])]).fault
    assert fault == Fault(reason=Reason.UNSCHEDULABLE, message="0/1 nodes are available.")
    fault = observe_inspection({}, [inspect(waiting("ErrImagePull", "no such image"))]).fault
    assert fault == Fault(reason=Reason.IMAGE_PULL_BACK_OFF, message="no such image")


def test_a_pod_that_ended_without_a_verdict() -> None:
    fault = observe_inspection({}, [inspect(terminated(2, "usage: …"))]).fault
    assert fault == Fault(
        reason=Reason.FETCH_FAILED, message="Inspecting the file ended with exit code 2: usage: …"
    )
    fault = observe_inspection({}, [inspect(terminated(137, reason="OOMKilled"))]).fault
    assert fault is not None and fault.reason is Reason.OOM_KILLED


def test_a_job_that_failed_and_left_no_pod() -> None:
    failed = condition("Failed", "True", reason="BackoffLimitExceeded", message=QUOTA)
    job = {"status": {"conditions": [condition("SuccessCriteriaMet", "False"), failed]}}
    fault = observe_inspection(job, []).fault
    assert fault == Fault(
        reason=Reason.FETCH_FAILED, message=f"The inspection did not run to its end: {QUOTA}"
    )
