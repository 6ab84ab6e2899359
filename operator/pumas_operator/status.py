"""`.status` of a ServedModel, computed from what is observed: no client, and no clock of its own.

Three questions are kept apart. Accepted: may this spec be served, as far as spec, profile and file
tell? Progressing and Ready: is the workload on its way to this generation, or there? Servable:
does anything answer now? A bad new spec while an old pod serves answers the first with False and
the last with True. What is known of the file outlives the pod or Job that read it, until the spec
asks for another inspection.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from pumas_crds.facts import Fault, RuntimeStatus
from pumas_crds.resource import Condition
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.vocabulary import PERMANENT_REASONS, ConditionType, LoadState, Reason
from pumas_operator.file_verdict import RETRIED, FileVerdict, select_verdict
from pumas_operator.labels import selector_text
from pumas_operator.observation import Observed, PodObservation
from pumas_operator.rest import falls_back

#: Faults that are nobody's progress: nothing is tried again until somebody acts.
STANDING = PERMANENT_REASONS | {Reason.NOT_OWNED}
#: Faults that only mean waiting; the model is still on its way.
WAITED_FOR = frozenset({Reason.UNSCHEDULABLE})


class _Verdict(NamedTuple):
    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str


class _Situation(NamedTuple):
    """What the verdicts are drawn from."""

    model: ServedModel
    observed: Observed
    wanted: int
    known: FileVerdict
    refusal: Fault | None
    fault: Fault | None
    """Why the model does not serve as it should: the refusal, else what its pods tell."""

    @property
    def lasting(self) -> Fault | None:
        """The fault, if it speaks against the spec or the file."""
        fault = self.fault
        lasts = fault is not None and (fault is self.refusal or fault.reason in PERMANENT_REASONS)
        return fault if lasts else None

    @property
    def suspended(self) -> bool:
        """Whether the spec asks not to serve."""
        return self.model.spec.suspend


def build_status(model: ServedModel, observed: Observed, now: datetime) -> ServedModelStatus:
    """The whole status; `model.status` is the previous one."""
    situation = _look(model, observed)
    progressing = _progressing(situation)
    verdicts = {
        ConditionType.ACCEPTED: _accepted(situation),
        ConditionType.PROGRESSING: progressing,
        ConditionType.READY: _ready(progressing),
        ConditionType.SERVABLE: _servable(situation),
    }
    known = situation.known
    return ServedModelStatus(
        observed_generation=model.metadata.generation,
        load_state=_load_state(situation),
        replicas=len(observed.pods),
        servable_replicas=observed.serving,
        last_replicas=model.spec.replicas or model.status.last_replicas,
        selector="" if observed.external else selector_text(model),
        model=model.alias,
        profile=model.profile,
        catalogue_id=model.catalogue_id,
        spec_hash=observed.spec_hash,
        inspection_hash=observed.inspection_hash if _verdict_kept(situation) else "",
        runtime=_runtime(model, observed),
        file=known.file,
        error=_error(situation),
        load_request=observed.load_request or model.status.load_request or None,
        conditions=tuple(_conditions(model, verdicts, now)),
    )


def _look(model: ServedModel, observed: Observed) -> _Situation:
    asked = observed.desired_replicas
    wanted = model.spec.desired_replicas if asked is None else asked
    refusal = _refusal(model, observed)
    known = select_verdict(model, observed)
    fault = refusal or _workload_fault(known, observed, wanted)
    return _Situation(model, observed, wanted, known, refusal, fault)


def _refusal(model: ServedModel, observed: Observed) -> Fault | None:
    if observed.duplicate:
        sentence = f"Another model is served as {model.alias} with profile {model.profile}."
        return Fault(reason=Reason.DUPLICATE_IDENTITY, message=sentence)
    if not observed.profile_found:
        place = f" in the namespace {observed.home}" if observed.home else ""
        sentence = f"There is no ServingProfile named {model.profile}{place}."
        return Fault(reason=Reason.PROFILE_NOT_FOUND, message=sentence)
    return observed.refused


def _verdict_kept(situation: _Situation) -> bool:
    """Whether this status itself carries a verdict on the file that need not be found again."""
    known = situation.known
    if known.file is not None:
        return True
    error = known.error
    final = error is not None and error.reason in PERMANENT_REASONS - RETRIED
    return final and error is situation.fault


def _workload_fault(known: FileVerdict, observed: Observed, wanted: int) -> Fault | None:
    """Why fewer pods than are wanted serve, as far as anybody has told."""
    if observed.foreign:
        sentence = f"{observed.foreign} exists and is not this model's; it is left as it is."
        return known.error or Fault(reason=Reason.NOT_OWNED, message=sentence)
    newest = observed.live[-1] if observed.live else None
    if newest is not None and newest.ready and newest.current:
        own = None
    else:
        own = known.error or (_pod_fault(newest) if newest is not None else None)
    if own is not None or observed.rolled_out >= wanted:
        return own
    job = observed.inspection
    # Until the file is inspected no pod is made, so that the Job's fault is what holds things up.
    return (job.fault if job is not None else None) or observed.workload_fault


def _pod_fault(pod: PodObservation) -> Fault | None:
    if pod.ready:
        return None
    if pod.engine_fault is not None:
        return pod.engine_fault
    if pod.waiting is not None:
        sentence = pod.message or "The pod waits and does not run."
        return Fault(reason=pod.waiting, message=sentence)
    if pod.fetch_failed:
        sentence = pod.message or "Fetching the file ended without a result; it is tried again."
        return Fault(reason=Reason.FETCH_FAILED, message=sentence)
    return pod.descriptor.error if pod.descriptor is not None else None


def _runtime(model: ServedModel, observed: Observed) -> RuntimeStatus | None:
    """What the newest ready pod says of its engine; at zero what was said for this very spec."""
    for pod in reversed(observed.live):
        told = pod.descriptor
        if pod.ready and told is not None and told.runtime is not None:
            facts = told.runtime.model_dump()
            return RuntimeStatus(**facts, mode=told.mode, mode_reason=told.mode_reason)
    previous = model.status
    same = bool(observed.spec_hash) and previous.spec_hash == observed.spec_hash
    return previous.runtime if same else None


def _error(situation: _Situation) -> Fault | None:
    if situation.lasting is not None:
        return situation.lasting
    # One replica's passing fault is no reason why the model cannot serve while another does.
    if situation.observed.serving:
        return None
    if situation.suspended:
        return Fault(reason=Reason.SUSPENDED, message="The model is suspended (spec.suspend).")
    return situation.fault or _last_fault(situation)


def _last_fault(situation: _Situation) -> Fault | None:
    """Why a model at rest did not come to serve when it was last loaded, in this very form."""
    previous, observed = situation.model.status, situation.observed
    rests = situation.wanted == 0 and situation.model.spec.effective_activation.on_demand
    same = bool(observed.spec_hash) and previous.spec_hash == observed.spec_hash
    return previous.error if rests and same and falls_back(previous.error) else None


def _accepted(situation: _Situation) -> _Verdict:
    fault = situation.lasting
    if fault is not None:
        return _Verdict("False", fault.reason, fault.message)
    if situation.observed.external:
        return _Verdict("True", Reason.ACCEPTED, "The endpoint may be used.")
    if situation.known.file is not None:
        sentence = "The file was inspected and can be served."
        if situation.model.spec.sha256 is not None and not situation.known.file.digest:
            # The header of a remote file is all that was read.
            sentence = "The file was inspected; its digest is checked when it is fetched."
        return _Verdict("True", Reason.ACCEPTED, sentence)
    job = situation.observed.inspection
    held_up = job.fault if job is not None else None
    sentence = "The file was not inspected yet."
    return _Verdict(
        "Unknown", Reason.INSPECTING, f"{sentence} {held_up.message}" if held_up else sentence
    )


def _progressing(situation: _Situation) -> _Verdict:
    observed, refusal, fault = situation.observed, situation.refusal, situation.fault
    if refusal is not None:
        return _Verdict("False", refusal.reason, refusal.message)
    if fault is not None and fault.reason is Reason.NOT_OWNED:
        return _Verdict("False", fault.reason, fault.message)
    if situation.wanted == 0 and observed.pods:
        return _Verdict("True", Reason.DRAINING, "Running calls finish before the pods end.")
    if situation.suspended:
        return _Verdict("False", Reason.SUSPENDED, "The model is suspended (spec.suspend).")
    if observed.external:
        return _Verdict("False", Reason.ROLLED_OUT, "Nothing of ours has to run.")
    if situation.wanted == 0 and situation.lasting is None:
        return _Verdict("False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    if 0 < situation.wanted <= observed.rolled_out:
        return _Verdict("False", Reason.ROLLED_OUT, "Every pod of this generation is ready.")
    if fault is not None:
        return _Verdict(
            "False" if fault.reason in STANDING else "True", fault.reason, fault.message
        )
    if observed.pods and not observed.live:
        return _Verdict("True", Reason.DRAINING, "The previous pod is ending.")
    if not observed.pods and situation.known.file is None and observed.inspection_hash:
        return _Verdict("True", Reason.INSPECTING, "The file is inspected before a pod is made.")
    return _Verdict("True", Reason.STARTING, "The pod gets its file ready and starts the engine.")


def _ready(progressing: _Verdict) -> _Verdict:
    settled = (Reason.ROLLED_OUT, Reason.SCALED_TO_ZERO, Reason.SUSPENDED)
    return progressing._replace(status="True" if progressing.reason in settled else "False")


def _servable(situation: _Situation) -> _Verdict:
    observed = situation.observed
    if observed.serving:
        return _Verdict(
            "True", Reason.AVAILABLE, f"{observed.serving} of {len(observed.pods)} pods answer."
        )
    if situation.suspended:
        return _Verdict("False", Reason.SUSPENDED, "The model is suspended (spec.suspend).")
    if observed.external and situation.refusal is None:
        return _Verdict("Unknown", Reason.NOT_OBSERVED, "Only routers see whether it answers.")
    if situation.wanted == 0:
        return _Verdict("False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    return _Verdict("False", Reason.NO_ENDPOINT, "No endpoint answers.")


def _load_state(situation: _Situation) -> LoadState:
    observed, fault = situation.observed, situation.fault
    if observed.serving:
        return LoadState.LOADED
    if situation.lasting is not None:
        return LoadState.FAILED
    if situation.wanted == 0 or situation.suspended:
        return LoadState.UNLOADING if observed.pods else LoadState.UNLOADED
    if fault is not None and fault.reason not in WAITED_FOR:
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
