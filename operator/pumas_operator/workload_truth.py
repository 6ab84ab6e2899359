"""What Deployments and Jobs say: why wanted pods are not made, what an inspection found."""

from __future__ import annotations

from collections.abc import Iterable

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import Reason
from pumas_operator.json_object import Json, items, member, text, whole
from pumas_operator.observation import InspectionObservation
from pumas_operator.pod_template import INSPECT
from pumas_operator.pod_truth import explain_end, explain_waiting, last_end, oldest_first, told_by
from pumas_operator.sentence import build_sentence


def observe_workload(deployment: Json) -> Fault | None:
    """Why a Deployment makes no pods, in its controller's own sentence; None when it does.

    A quota, an admission policy or a LimitRange refuses pods, not Deployments: only the
    Deployment's `ReplicaFailure` tells of it.
    """
    conditions = {
        text(condition, "type"): condition
        for condition in items(member(deployment, "status"), "conditions")
    }
    failure = conditions.get("ReplicaFailure", {})
    if text(failure, "status") == "True":
        sentence = build_sentence(text(failure, "message"), "The cluster refuses to make pods.")
        return Fault(reason=Reason.REPLICA_FAILURE, message=sentence)
    progress = conditions.get("Progressing", {})
    if text(progress, "reason") == "ProgressDeadlineExceeded":
        sentence = "The pods were not ready within the time that a rollout may take."
        return Fault(reason=Reason.PROGRESS_DEADLINE_EXCEEDED, message=sentence)
    return None


def observe_inspection(job: Json, pods: Iterable[Json]) -> InspectionObservation:
    """What an inspection Job found, from the pods that it made; the newest verdict counts."""
    ordered = oldest_first(pods)
    for pod in reversed(ordered):
        told = told_by(pod, INSPECT)
        if told is not None:
            return InspectionObservation(result=told)
    for pod in reversed(ordered):
        waiting = explain_waiting(pod)
        if waiting is not None:
            return InspectionObservation(fault=waiting)
        end = last_end(pod, INSPECT)
        if end is not None:
            fault = explain_end(end, "Inspecting the file", Reason.FETCH_FAILED)
            return InspectionObservation(fault=fault)
    return InspectionObservation(fault=_failure(job))


def has_run(job: Json) -> bool:
    """Whether some pod of the Job has ended, well or badly."""
    status = member(job, "status")
    return bool(whole(status, "succeeded") or whole(status, "failed"))


def _failure(job: Json) -> Fault | None:
    """Why a Job without a telling pod failed: a quota, its deadline, a node that went."""
    for condition in items(member(job, "status"), "conditions"):
        if text(condition, "type") == "Failed" and text(condition, "status") == "True":
            sentence = build_sentence(text(condition, "message"), "The cluster gives no reason.")
            message = f"The inspection did not run to its end: {sentence}"
            return Fault(reason=Reason.FETCH_FAILED, message=message)
    return None
