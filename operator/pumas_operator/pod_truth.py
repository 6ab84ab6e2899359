"""What Pod objects say of a model's pods: the scheduler's, the kubelet's and our programs' words.

Kubernetes spreads the truth over conditions, waiting reasons and the ends of earlier runs; here it
becomes one observation. Whoever knows best speaks: the termination message of our own program,
else its last line of output, else the kubelet, else the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from pumas_crds.facts import Fault, Inspection
from pumas_crds.vocabulary import SPEC_HASH_ANNOTATION, Reason
from pumas_operator.json_object import Json, items, member, text, whole
from pumas_operator.objects import is_going, uid_of
from pumas_operator.observation import PodObservation
from pumas_operator.pod_template import FETCH, SERVER
from pumas_operator.sentence import build_sentence, last_line

#: Waiting reasons of the kubelet, each with ours.
_WAITING: dict[str, Reason] = {
    "ErrImagePull": Reason.IMAGE_PULL_BACK_OFF,
    "ImagePullBackOff": Reason.IMAGE_PULL_BACK_OFF,
    "ErrImageNeverPull": Reason.IMAGE_PULL_BACK_OFF,
    "ErrImagePullBackOff": Reason.IMAGE_PULL_BACK_OFF,
    "ImageInspectError": Reason.IMAGE_PULL_BACK_OFF,
    "InvalidImageName": Reason.IMAGE_PULL_BACK_OFF,
    "RegistryUnavailable": Reason.IMAGE_PULL_BACK_OFF,
    "SignatureValidationFailed": Reason.IMAGE_PULL_BACK_OFF,
    "CreateContainerConfigError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
    "CreateContainerError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
    "PreCreateHookError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
    "PreStartHookError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
    "PostStartHookError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
    "RunContainerError": Reason.CREATE_CONTAINER_CONFIG_ERROR,
}
_CRASHING = "CrashLoopBackOff"
_OOM = "OOMKilled"


def observe_pods(pods: Iterable[Json], spec_hash: str) -> tuple[PodObservation, ...]:
    """The observations of a model's serving pods, oldest first.

    A pod that is over (evicted, lost with its node) counts only while no other has taken its place.
    """
    ordered = oldest_first(pods)
    last = len(ordered) - 1
    kept = [pod for at, pod in enumerate(ordered) if not is_over(pod) or at == last]
    return tuple(observe_pod(pod, spec_hash) for pod in kept)


def observe_pod(pod: Json, spec_hash: str) -> PodObservation:
    """The observation of one pod; `spec_hash` is that of the template which is wanted now."""
    metadata, status = member(pod, "metadata"), member(pod, "status")
    terminating = is_going(pod)
    fetch, server = _any_container(pod, FETCH), _any_container(pod, SERVER)
    ready = is_ready(pod) and not terminating
    waiting, message = _waiting(status, (fetch, server))
    fetched_badly = _failed(fetch)
    if fetched_badly is not None and waiting is None:
        waiting = fetched_badly.reason if fetched_badly.reason is Reason.OOM_KILLED else None
        message = fetched_badly.message
    told = ready or waiting is Reason.EVICTED  # an eviction is why the engine ended, too
    return PodObservation(
        uid=uid_of(pod),
        current=text(member(metadata, "annotations"), SPEC_HASH_ANNOTATION) == spec_hash,
        waiting=waiting,
        message=message,
        inspection=told_by(pod, FETCH),
        fetch_failed=fetched_badly is not None,
        ready=ready,
        terminating=terminating,
        engine_fault=None if told else _engine_fault(server),
        restarts=whole(server, "restartCount"),
    )


def is_ready(pod: Json) -> bool:
    """Whether the kubelet calls the pod ready."""
    return any(
        text(condition, "type") == "Ready" and text(condition, "status") == "True"
        for condition in items(member(pod, "status"), "conditions")
    )


def oldest_first(pods: Iterable[Json]) -> list[Json]:
    """Pods in the order in which they were made."""
    return sorted(pods, key=_age)


def told_by(pod: Json, container: str) -> Inspection | None:
    """What a program of ours in that container reported when it last ended."""
    return next(filter(None, map(_told, _ends(_any_container(pod, container)))), None)


def last_end(pod: Json, container: str) -> Json | None:
    """How the container's last run ended, if one has."""
    return next(_ends(_any_container(pod, container)), None)


def explain_end(end: Json, who: str, otherwise: Reason) -> Fault:
    """Why a run of a container ended, from its `terminated` record.

    `otherwise` is the reason of an end that neither our program nor the kubelet explains.
    """
    told = _told(end)
    if told is not None and told.error is not None:
        return told.error
    if text(end, "reason") == _OOM:
        message = f"{who} used more memory than its limit and was ended."
        return Fault(reason=Reason.OOM_KILLED, message=message)
    code = whole(end, "exitCode")
    if code == 0:
        message = f"{who} ended as it does when its kubelet tells it to, as after failed probes."
        return Fault(reason=otherwise, message=message)
    line = last_line(text(end, "message"))
    message = f"{who} ended with exit code {code}" + (f": {line}" if line else ".")
    return Fault(reason=otherwise, message=message)


def explain_waiting(pod: Json) -> Fault | None:
    """Why a pod's containers do not run, when their own programs are not the reason."""
    status = member(pod, "status")
    statuses = (
        *items(status, "initContainerStatuses"),
        *items(status, "containerStatuses"),
    )
    reason, message = _waiting(status, statuses)
    return None if reason is None else Fault(reason=reason, message=message)


def _age(pod: Json) -> tuple[str, str]:
    """Creation times are RFC 3339 in UTC, hence in order as text; names decide within a second."""
    metadata = member(pod, "metadata")
    return text(metadata, "creationTimestamp"), text(metadata, "name")


def is_over(pod: Json) -> bool:
    """Whether all of a pod's programs have ended for good: it is evicted, lost or done."""
    return text(member(pod, "status"), "phase") in ("Failed", "Succeeded")


def _any_container(pod: Json, name: str) -> Json:
    status = member(pod, "status")
    statuses = (*items(status, "initContainerStatuses"), *items(status, "containerStatuses"))
    return _container(statuses, name)


def _container(statuses: tuple[Json, ...], name: str) -> Json:
    return next((status for status in statuses if text(status, "name") == name), {})


def _waiting(status: Json, containers: Iterable[Json]) -> tuple[Reason | None, str]:
    for condition in items(status, "conditions"):
        unplaced = (
            text(condition, "type") == "PodScheduled" and text(condition, "status") == "False"
        )
        if unplaced:
            sentence = build_sentence(text(condition, "message"), "The pod has no node yet.")
            return Reason.UNSCHEDULABLE, sentence
    for container in containers:
        waiting = member(member(container, "state"), "waiting")
        reason = _WAITING.get(text(waiting, "reason"))
        if reason is not None:
            sentence = build_sentence(text(waiting, "message"), "The kubelet gives no reason.")
            return reason, sentence
    if text(status, "phase") == "Failed" and text(status, "reason"):
        sentence = build_sentence(text(status, "message"), "The pod lost its place on its node.")
        return Reason.EVICTED, sentence
    return None, ""


def _ends(container: Json) -> Iterator[Json]:
    """The ends of a container's runs that the kubelet remembers, the last first."""
    for when in ("state", "lastState"):
        end = member(member(container, when), "terminated")
        if end:
            yield end


def _failed(fetch: Json) -> Fault | None:
    """Why the last run of fetching that ended did so badly."""
    end = next(_ends(fetch), None)
    if end is None or whole(end, "exitCode") == 0:
        return None
    return explain_end(end, "Fetching the file", Reason.FETCH_FAILED)


def _engine_fault(server: Json) -> Fault | None:
    end = next(_ends(server), None)
    if end is None:
        return None
    # One word for all of a loop, or it would change with every turn.
    looping = text(member(member(server, "state"), "waiting"), "reason") == _CRASHING
    looping = looping or whole(server, "restartCount") > 0
    otherwise = Reason.CRASH_LOOP_BACK_OFF if looping else Reason.ENGINE_FAILED
    return explain_end(end, "The serving container", otherwise)


def _told(end: Json) -> Inspection | None:
    """Our own program's account of a run, if it left one."""
    try:
        told = Inspection.model_validate_json(text(end, "message"))
    except ValidationError:
        return None
    return told if told.file is not None or told.error is not None else None
