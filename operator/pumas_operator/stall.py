"""What waits without a word in its own status, and what the cluster's Events say about it. Pure.

A Job whose pods are refused (a quota, an admission policy) and a pod whose volume cannot be mounted
say nothing themselves: only their controllers' Events do. A pod whose claim has no volume says so,
but not why: that is told in Events about the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import Reason
from pumas_operator.json_object import Json, items, member, text
from pumas_operator.kinds import EVENT
from pumas_operator.objects import is_going, owners_of, uid_of
from pumas_operator.pod_truth import explain_waiting
from pumas_operator.requests import Request
from pumas_operator.sentence import build_sentence
from pumas_operator.workload_truth import has_run

#: How long making a pod, or its containers, may take before the reason is looked for.
JOB_PATIENCE_SECONDS = 3
POD_PATIENCE_SECONDS = 15
#: What the kubelet says of a container while it does what has to be done before it.
_BEFORE = frozenset({"", "ContainerCreating", "PodInitializing"})
#: What the scheduler says of a pod whose claim has no volume.
_UNBOUND = "PersistentVolumeClaims"


def select_podless_jobs(jobs: Iterable[Json], pods: Iterable[Json]) -> Iterator[Json]:
    """Jobs that are to have a pod and have none, if only because they are new."""
    with_pods = {uid for pod in pods for uid in owners_of(pod)}
    for job in jobs:
        if uid_of(job) not in with_pods and not has_run(job) and not is_going(job):
            yield job


def select_silent_jobs(jobs: Iterable[Json], pods: Iterable[Json], now: datetime) -> Iterator[str]:
    """The uids of Jobs that should have a pod by now."""
    for job in select_podless_jobs(jobs, pods):
        if _age(job, now) >= JOB_PATIENCE_SECONDS:
            yield uid_of(job)


def select_silent_pods(pods: Iterable[Json], now: datetime) -> Iterator[str]:
    """The uids of pods that have a node, yet none of whose containers should take this long."""
    for pod in pods:
        old = _age(pod, now) >= POD_PATIENCE_SECONDS
        if old and is_preparing(pod) and explain_waiting(pod) is None and not is_going(pod):
            yield uid_of(pod)


def select_unbound_claims(pods: Iterable[Json]) -> Iterator[tuple[str, str]]:
    """The uids of pods that no node takes for want of a volume, each with the claim's name."""
    for pod in pods:
        waiting = explain_waiting(pod)
        if waiting is None or waiting.reason is not Reason.UNSCHEDULABLE or is_going(pod):
            continue
        for volume in items(member(pod, "spec"), "volumes"):
            claim = text(member(volume, "persistentVolumeClaim"), "claimName")
            if claim and _UNBOUND in waiting.message:
                yield uid_of(pod), claim


def is_preparing(pod: Json) -> bool:
    """Whether a pod that has a node waits for its volumes or its network."""
    status = member(pod, "status")
    states = [
        member(container, "state")
        for part in ("initContainerStatuses", "containerStatuses")
        for container in items(status, part)
    ]
    untouched = all(text(member(state, "waiting"), "reason") in _BEFORE for state in states)
    waits = all("running" not in state and "terminated" not in state for state in states)
    placed = bool(text(member(pod, "spec"), "nodeName"))
    return text(status, "phase") == "Pending" and placed and untouched and waits


def build_events_query(namespace: str, uid: str) -> Request:
    """The warnings about one object."""
    selector = f"involvedObject.uid={uid},type=Warning"
    return Request("GET", EVENT.path(namespace), query={"fieldSelector": selector, "limit": "50"})


def build_claim_events_query(namespace: str, claim: str) -> Request:
    """The warnings about one PersistentVolumeClaim."""
    about = f"involvedObject.kind=PersistentVolumeClaim,involvedObject.name={claim}"
    query = {"fieldSelector": f"{about},type=Warning", "limit": "50"}
    return Request("GET", EVENT.path(namespace), query=query)


def build_stall(events: Json, reason: Reason) -> Fault | None:
    """What the newest warning says."""
    told = sorted(items(events, "items"), key=_last_seen)
    if not told:
        return None
    return Fault(reason=reason, message=build_sentence(text(told[-1], "message"), "No reason."))


def _last_seen(event: Json) -> str:
    return text(event, "lastTimestamp") or text(event, "eventTime")


def _age(body: Json, now: datetime) -> float:
    """In seconds."""
    created = text(member(body, "metadata"), "creationTimestamp")
    return (now - datetime.fromisoformat(created)).total_seconds() if created else 0.0
