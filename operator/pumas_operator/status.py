"""`.status` of a ServedModel, computed from what is observed: no client, and no clock of its own.

Three questions are kept apart. Accepted: may this spec be served, as far as spec, profile and file
tell? Progressing and Ready: is the workload on its way to this generation, or there? Servable:
does anything answer now? A bad new spec while an old pod serves answers the first with False and
the last with True. What is known of the file outlives the pod that read it, until the spec changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from pumas_crds.facts import Fault, FileFacts, Inspection
from pumas_crds.resource import Condition
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.vocabulary import PERMANENT_REASONS, ConditionType, LoadState, Reason

#: Refusals that are computed anew every time, hence never kept from an earlier status.
RECOMPUTED = frozenset(
    {
        Reason.DUPLICATE_IDENTITY,
        Reason.ENDPOINT_NOT_ALLOWED,
        Reason.NOT_IMPLEMENTED,
        Reason.PROFILE_NOT_FOUND,
    }
)


@dataclass(frozen=True, slots=True)
class PodObservation:
    """One serving pod as its kubelet sees it."""

    uid: str
    current: bool = True
    """Whether it was made from this generation's template."""
    waiting: Reason | None = None
    """Why it does not run, when its own programs are not the reason: `Unschedulable`…"""
    inspection: Inspection | None = None
    """What its init container reported of the file."""
    fetch_failed: bool = False
    """Whether the init container's last run failed."""
    ready: bool = False
    terminating: bool = False
    engine_fault: Fault | None = None
    """Why the serving container's last run ended; kept until it is ready again."""
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a model's status depends on, beside its spec and its previous status."""

    profile_found: bool = True
    duplicate: bool = False
    """Whether another model has this alias and profile and comes first."""
    refused: Fault | None = None
    """A refusal that no file can mend, see `acceptance`."""
    desired_replicas: int = 1
    pods: tuple[PodObservation, ...] = ()
    """Oldest first."""
    external: bool = False
    """A server that is not ours answers: there are no pods, and only routers see if it does."""

    @property
    def live(self) -> tuple[PodObservation, ...]:
        """Pods that are not on their way out."""
        return tuple(pod for pod in self.pods if not pod.terminating)

    @property
    def serving(self) -> int:
        """How many pods answer now, of whatever generation."""
        return sum(pod.ready for pod in self.live)


class _Known(NamedTuple):
    file: FileFacts | None
    error: Fault | None


class _Verdict(NamedTuple):
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str


def build_status(model: ServedModel, observed: Observed, now: datetime) -> ServedModelStatus:
    """The whole status; `model.status` is the previous one."""
    refusal = _refusal(model, observed)
    known = _known(model, observed)
    fault = refusal or _pod_fault(known, observed)
    lasting = fault is not None and (fault is refusal or fault.reason in PERMANENT_REASONS)
    progressing = _progressing(observed, refusal, fault)
    verdicts = {
        ConditionType.ACCEPTED: _accepted(observed, known, fault, lasting),
        ConditionType.PROGRESSING: progressing,
        ConditionType.READY: _ready(progressing),
        ConditionType.SERVABLE: _servable(observed, refusal),
    }
    return ServedModelStatus(
        observed_generation=model.metadata.generation,
        load_state=_load_state(observed, fault, lasting),
        replicas=len(observed.pods),
        servable_replicas=observed.serving,
        model=model.alias,
        profile=model.profile,
        file=known.file,
        # One replica's passing fault is no reason why the model cannot serve while another does.
        error=None if observed.serving and not lasting else fault,
        conditions=tuple(_conditions(model, verdicts, now)),
    )


def _refusal(model: ServedModel, observed: Observed) -> Fault | None:
    if observed.duplicate:
        sentence = f"Another model is served as {model.alias} with profile {model.profile}."
        return Fault(reason=Reason.DUPLICATE_IDENTITY, message=sentence)
    if not observed.profile_found:
        sentence = f"There is no ServingProfile named {model.profile}."
        return Fault(reason=Reason.PROFILE_NOT_FOUND, message=sentence)
    return observed.refused


def _known(model: ServedModel, observed: Observed) -> _Known:
    """What is known of the file: the newest pod's word, else the previous status's."""
    for pod in reversed(observed.live):
        if pod.inspection is not None:
            return _Known(pod.inspection.file, pod.inspection.error)
    previous = model.status
    if previous.observed_generation != model.metadata.generation:
        return _Known(None, None)
    # A pod that has not read the file yet is a new attempt; only without one does a fault persist.
    error = None if observed.live else previous.error
    kept = error is not None and error.reason in PERMANENT_REASONS - RECOMPUTED
    return _Known(previous.file, error if kept else None)


def _pod_fault(known: _Known, observed: Observed) -> Fault | None:
    """Why the newest pod does not serve, as far as it has told."""
    newest = observed.live[-1] if observed.live else None
    if newest is None:
        return known.error
    if newest.ready:
        return None
    if known.error is not None:
        return known.error
    if newest.engine_fault is not None:
        return newest.engine_fault
    if newest.fetch_failed:
        sentence = "Fetching the file ended without a result; it is tried again."
        return Fault(reason=Reason.FETCH_FAILED, message=sentence)
    if newest.waiting is not None:
        return Fault(reason=newest.waiting, message="The pod waits and does not run.")
    return None


def _accepted(observed: Observed, known: _Known, fault: Fault | None, lasting: bool) -> _Verdict:
    if fault is not None and lasting:
        return _Verdict("False", fault.reason, fault.message)
    if observed.external:
        return _Verdict("True", Reason.ACCEPTED, "The endpoint may be used.")
    if known.file is not None:
        return _Verdict("True", Reason.ACCEPTED, "The file was inspected and can be served.")
    return _Verdict("Unknown", Reason.INSPECTING, "The file was not inspected yet.")


def _progressing(observed: Observed, refusal: Fault | None, fault: Fault | None) -> _Verdict:
    if refusal is not None:
        return _Verdict("False", refusal.reason, refusal.message)
    if observed.external:
        return _Verdict("False", Reason.ROLLED_OUT, "Nothing of ours has to run.")
    if observed.desired_replicas == 0:
        if observed.pods:
            return _Verdict("True", Reason.DRAINING, "Running calls finish before the pods end.")
        return _Verdict("False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    if sum(pod.ready and pod.current for pod in observed.live) >= observed.desired_replicas:
        return _Verdict("False", Reason.ROLLED_OUT, "Every pod of this generation is ready.")
    if fault is not None:
        permanent = fault.reason in PERMANENT_REASONS
        return _Verdict("False" if permanent else "True", fault.reason, fault.message)
    if observed.pods and not observed.live:
        return _Verdict("True", Reason.DRAINING, "The previous pod is ending.")
    return _Verdict("True", Reason.STARTING, "The pod fetches the file and starts the engine.")


def _ready(progressing: _Verdict) -> _Verdict:
    rolled_out = progressing.reason in (Reason.ROLLED_OUT, Reason.SCALED_TO_ZERO)
    return progressing._replace(status="True" if rolled_out else "False")


def _servable(observed: Observed, refusal: Fault | None) -> _Verdict:
    if observed.serving:
        return _Verdict(
            "True", Reason.AVAILABLE, f"{observed.serving} of {len(observed.pods)} pods answer."
        )
    if observed.external and refusal is None:
        return _Verdict("Unknown", Reason.NOT_OBSERVED, "Only routers see whether it answers.")
    if observed.desired_replicas == 0:
        return _Verdict("False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    return _Verdict("False", Reason.NO_ENDPOINT, "No endpoint answers.")


def _load_state(observed: Observed, fault: Fault | None, lasting: bool) -> LoadState:
    if observed.serving:
        return LoadState.LOADED
    if lasting:
        return LoadState.FAILED
    if observed.desired_replicas == 0:
        return LoadState.UNLOADING if observed.pods else LoadState.UNLOADED
    if fault is not None and fault.reason is not Reason.UNSCHEDULABLE:
        return LoadState.FAILED
    if not observed.pods and not observed.external:
        return LoadState.REQUESTED
    return LoadState.LOADING


def _conditions(
    model: ServedModel, verdicts: dict[ConditionType, _Verdict], now: datetime
) -> Iterable[Condition]:
    previous = {condition.type: condition for condition in model.status.conditions}
    for kind, verdict in verdicts.items():
        before = previous.get(kind)
        unchanged = before is not None and before.status == verdict.status
        yield Condition(
            type=kind,
            status=verdict.status,
            observed_generation=model.metadata.generation,
            last_transition_time=before.last_transition_time if before and unchanged else now,
            reason=verdict.reason,
            message=verdict.message,
        )
