"""Status: a table of what is observed and what is said of it, and what always holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.facts import (
    Fault,
    FileFacts,
    Inspection,
    PodDescriptor,
    PodState,
    RuntimeFacts,
    RuntimeStatus,
)
from pumas_crds.resource import Condition
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.vocabulary import (
    PERMANENT_REASONS,
    ConditionType,
    EngineMode,
    LoadState,
    Reason,
)
from pumas_operator.file_verdict import RETRIED, inspection_due
from pumas_operator.labels import selector_text
from pumas_operator.observation import InspectionObservation, Observed, PodObservation
from pumas_operator.status import build_status
from support.models import external_model, served_model

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
FILE = FileFacts(architecture="llama", size_bytes=10)
READ = Inspection(file=FILE)
ENGINE_FAILED = Fault(reason=Reason.ENGINE_FAILED, message="The engine aborted.")
OUT_OF_SPACE = Fault(reason=Reason.FETCH_FAILED, message="The disk is full.")


def pod(uid: str = "1", **facts: Any) -> PodObservation:
    return PodObservation(uid=uid, **facts)


def refused(reason: Reason) -> Fault:
    return Fault(reason=reason, message=f"Because of {reason}.")


def inspected(reason: Reason) -> PodObservation:
    return pod(fetch_failed=True, inspection=Inspection(error=refused(reason)))


@dataclass(frozen=True)
class Row:
    """What is observed, and the verdicts: conditions as `Status/Reason` in the order of the API."""

    name: str
    observed: Observed
    load_state: str
    accepted: str
    progressing: str
    ready: str
    servable: str
    error: str | None = None
    previous: ServedModelStatus = field(default_factory=ServedModelStatus)
    spec: dict[str, Any] = field(default_factory=dict)


ROWS = [
    Row(
        "no pod yet",
        Observed(),
        "requested",
        "Unknown/Inspecting",
        "True/Starting",
        "False/Starting",
        "False/NoEndpoint",
    ),
    Row(
        "inspecting",
        Observed(pods=(pod(),)),
        "loading",
        "Unknown/Inspecting",
        "True/Starting",
        "False/Starting",
        "False/NoEndpoint",
    ),
    Row(
        "starting",
        Observed(pods=(pod(inspection=READ),)),
        "loading",
        "True/Accepted",
        "True/Starting",
        "False/Starting",
        "False/NoEndpoint",
    ),
    Row(
        "serving",
        Observed(pods=(pod(inspection=READ, ready=True),)),
        "loaded",
        "True/Accepted",
        "False/RolledOut",
        "True/RolledOut",
        "True/Available",
    ),
    *(
        Row(
            f"the file: {reason}",
            Observed(pods=(inspected(reason),)),
            "failed",
            f"False/{reason}",
            f"False/{reason}",
            f"False/{reason}",
            "False/NoEndpoint",
            error=reason,
        )
        for reason in (
            Reason.SOURCE_UNREACHABLE,
            Reason.DIGEST_MISMATCH,
            Reason.NOT_A_MODEL,
            Reason.TRUNCATED,
            Reason.MISSING_RANKING_HEAD,
            Reason.PROJECTOR_MISMATCH,
            Reason.TASK_MISMATCH,
        )
    ),
    *(
        Row(
            f"refused: {reason}",
            observed,
            "failed",
            f"False/{reason}",
            f"False/{reason}",
            f"False/{reason}",
            "False/NoEndpoint",
            error=reason,
        )
        for reason, observed in {
            Reason.PROFILE_NOT_FOUND: Observed(profile_found=False),
            Reason.DUPLICATE_IDENTITY: Observed(duplicate=True),
            Reason.NOT_IMPLEMENTED: Observed(refused=refused(Reason.NOT_IMPLEMENTED)),
            Reason.INVALID_SPEC: Observed(refused=refused(Reason.INVALID_SPEC)),
            Reason.SOURCE_NOT_ALLOWED: Observed(refused=refused(Reason.SOURCE_NOT_ALLOWED)),
            Reason.ENDPOINT_NOT_ALLOWED: Observed(
                refused=refused(Reason.ENDPOINT_NOT_ALLOWED), external=True
            ),
        }.items()
    ),
    Row(
        "a bad new spec while the old serves",
        Observed(refused=refused(Reason.NOT_IMPLEMENTED), pods=(pod(inspection=READ, ready=True),)),
        "loaded",
        "False/NotImplemented",
        "False/NotImplemented",
        "False/NotImplemented",
        "True/Available",
        error="NotImplemented",
    ),
    Row(
        "a bad new file while an old pod serves",
        Observed(
            pods=(
                pod("old", current=False, ready=True, inspection=READ),
                inspected(Reason.DIGEST_MISMATCH),
            )
        ),
        "loaded",
        "False/DigestMismatch",
        "False/DigestMismatch",
        "False/DigestMismatch",
        "True/Available",
        error="DigestMismatch",
    ),
    Row(
        "an old pod serves while the new starts",
        Observed(pods=(pod("old", current=False, ready=True, inspection=READ), pod("new"))),
        "loaded",
        "True/Accepted",
        "True/Starting",
        "False/Starting",
        "True/Available",
        previous=ServedModelStatus(observed_generation=1, file=FILE),
    ),
    Row(
        "what an old pod read says nothing of another file",
        Observed(pods=(pod("old", current=False, ready=True, inspection=READ), pod("new"))),
        "loaded",
        "Unknown/Inspecting",
        "True/Starting",
        "False/Starting",
        "True/Available",
    ),
    Row(
        "fetching broke and said nothing",
        Observed(pods=(pod(fetch_failed=True),)),
        "failed",
        "Unknown/Inspecting",
        "True/FetchFailed",
        "False/FetchFailed",
        "False/NoEndpoint",
        error="FetchFailed",
    ),
    Row(
        "fetching broke for a passing cause",
        Observed(pods=(pod(fetch_failed=True, inspection=Inspection(error=OUT_OF_SPACE)),)),
        "failed",
        "Unknown/Inspecting",
        "True/FetchFailed",
        "False/FetchFailed",
        "False/NoEndpoint",
        error="FetchFailed",
    ),
    Row(
        "the engine failed",
        Observed(pods=(pod(inspection=READ, engine_fault=ENGINE_FAILED, restarts=3),)),
        "failed",
        "True/Accepted",
        "True/EngineFailed",
        "False/EngineFailed",
        "False/NoEndpoint",
        error="EngineFailed",
    ),
    Row(
        "the engine found a fault that no restart mends",
        Observed(pods=(pod(inspection=READ, engine_fault=refused(Reason.MISSING_RANKING_HEAD)),)),
        "failed",
        "False/MissingRankingHead",
        "False/MissingRankingHead",
        "False/MissingRankingHead",
        "False/NoEndpoint",
        error="MissingRankingHead",
    ),
    *(
        Row(
            f"waiting: {reason}",
            Observed(pods=(pod(waiting=reason),)),
            load_state,
            "Unknown/Inspecting",
            f"True/{reason}",
            f"False/{reason}",
            "False/NoEndpoint",
            error=reason,
        )
        for reason, load_state in {
            Reason.UNSCHEDULABLE: "loading",
            Reason.IMAGE_PULL_BACK_OFF: "failed",
            Reason.OOM_KILLED: "failed",
            Reason.CREATE_CONTAINER_CONFIG_ERROR: "failed",
            Reason.EVICTED: "failed",
        }.items()
    ),
    Row(
        "the previous pod is ending",
        Observed(pods=(pod(terminating=True, ready=True, inspection=READ),)),
        "loading",
        "Unknown/Inspecting",
        "True/Draining",
        "False/Draining",
        "False/NoEndpoint",
    ),
    Row(
        "scaling to zero",
        Observed(desired_replicas=0, pods=(pod(terminating=True, ready=True),)),
        "unloading",
        "Unknown/Inspecting",
        "True/Draining",
        "False/Draining",
        "False/ScaledToZero",
    ),
    Row(
        "at zero, never inspected",
        Observed(desired_replicas=0),
        "unloaded",
        "Unknown/Inspecting",
        "False/ScaledToZero",
        "True/ScaledToZero",
        "False/ScaledToZero",
    ),
    Row(
        "at zero, inspected before",
        Observed(desired_replicas=0),
        "unloaded",
        "True/Accepted",
        "False/ScaledToZero",
        "True/ScaledToZero",
        "False/ScaledToZero",
        previous=ServedModelStatus(observed_generation=1, file=FILE),
    ),
    Row(
        "a passing fault is forgotten with its pod",
        Observed(desired_replicas=0),
        "unloaded",
        "True/Accepted",
        "False/ScaledToZero",
        "True/ScaledToZero",
        "False/ScaledToZero",
        previous=ServedModelStatus(observed_generation=1, file=FILE, error=ENGINE_FAILED),
    ),
    Row(
        "a permanent fault outlives its pod",
        Observed(),
        "failed",
        "False/Truncated",
        "False/Truncated",
        "False/Truncated",
        "False/NoEndpoint",
        error="Truncated",
        previous=ServedModelStatus(observed_generation=1, error=refused(Reason.TRUNCATED)),
    ),
    Row(
        "a permanent fault is told at zero too",
        Observed(desired_replicas=0),
        "failed",
        "False/Truncated",
        "False/Truncated",
        "False/Truncated",
        "False/ScaledToZero",
        error="Truncated",
        previous=ServedModelStatus(observed_generation=1, error=refused(Reason.TRUNCATED)),
    ),
    Row(
        "a permanent fault does not outlive the spec",
        Observed(),
        "requested",
        "Unknown/Inspecting",
        "True/Starting",
        "False/Starting",
        "False/NoEndpoint",
        previous=ServedModelStatus(observed_generation=0, error=refused(Reason.TRUNCATED)),
    ),
    Row(
        "a new attempt forgets a permanent fault",
        Observed(pods=(pod(),)),
        "loading",
        "Unknown/Inspecting",
        "True/Starting",
        "False/Starting",
        "False/NoEndpoint",
        previous=ServedModelStatus(observed_generation=1, error=refused(Reason.TRUNCATED)),
    ),
    Row(
        "a profile that came back",
        Observed(),
        "requested",
        "Unknown/Inspecting",
        "True/Starting",
        "False/Starting",
        "False/NoEndpoint",
        previous=ServedModelStatus(observed_generation=1, error=refused(Reason.PROFILE_NOT_FOUND)),
    ),
    Row(
        "one of two replicas failed for a passing cause",
        Observed(
            desired_replicas=2,
            pods=(
                pod("1", inspection=READ, ready=True),
                pod("2", inspection=READ, engine_fault=ENGINE_FAILED),
            ),
        ),
        "loaded",
        "True/Accepted",
        "True/EngineFailed",
        "False/EngineFailed",
        "True/Available",
    ),
    Row(
        "the engine ends again and again",
        Observed(pods=(pod(inspection=READ, engine_fault=refused(Reason.CRASH_LOOP_BACK_OFF)),)),
        "failed",
        "True/Accepted",
        "True/CrashLoopBackOff",
        "False/CrashLoopBackOff",
        "False/NoEndpoint",
        error="CrashLoopBackOff",
    ),
    Row(
        "the engine fails under a supervisor that lives",
        Observed(
            pods=(
                pod(
                    inspection=READ,
                    descriptor=PodDescriptor(state=PodState.FAILED, error=ENGINE_FAILED),
                ),
            )
        ),
        "failed",
        "True/Accepted",
        "True/EngineFailed",
        "False/EngineFailed",
        "False/NoEndpoint",
        error="EngineFailed",
    ),
    Row(
        "an image without the flag that is asked for",
        Observed(
            pods=(
                pod(
                    inspection=READ,
                    descriptor=PodDescriptor(
                        state=PodState.FAILED, error=refused(Reason.NOT_IMPLEMENTED)
                    ),
                ),
            )
        ),
        "failed",
        "False/NotImplemented",
        "False/NotImplemented",
        "False/NotImplemented",
        "False/NoEndpoint",
        error="NotImplemented",
    ),
    *(
        Row(
            f"no pods are made: {reason}",
            Observed(workload_fault=refused(reason)),
            "failed",
            "True/Accepted",
            f"True/{reason}",
            f"False/{reason}",
            "False/NoEndpoint",
            error=reason,
            previous=ServedModelStatus(observed_generation=1, file=FILE),
        )
        for reason in (
            Reason.REPLICA_FAILURE,
            Reason.APPLY_REFUSED,
            Reason.PROGRESS_DEADLINE_EXCEEDED,
        )
    ),
    Row(
        "the second of two pods is not made",
        Observed(
            pods=(pod(inspection=READ, ready=True),),
            workload_fault=refused(Reason.REPLICA_FAILURE),
        ),
        "loaded",
        "True/Accepted",
        "True/ReplicaFailure",
        "False/ReplicaFailure",
        "True/Available",
        spec={"replicas": 2},
    ),
    Row(
        "a new pod is not made while the old serves",
        Observed(
            pods=(pod("old", current=False, ready=True),),
            workload_fault=refused(Reason.REPLICA_FAILURE),
        ),
        "loaded",
        "True/Accepted",
        "True/ReplicaFailure",
        "False/ReplicaFailure",
        "True/Available",
        previous=ServedModelStatus(observed_generation=1, file=FILE),
    ),
    Row(
        "an old complaint of the Deployment once all pods serve",
        Observed(
            pods=(pod(inspection=READ, ready=True),),
            workload_fault=refused(Reason.PROGRESS_DEADLINE_EXCEEDED),
        ),
        "loaded",
        "True/Accepted",
        "False/RolledOut",
        "True/RolledOut",
        "True/Available",
    ),
    Row(
        "a foreign Deployment has our name",
        Observed(foreign="The Deployment tiny-serving", pods=()),
        "failed",
        "True/Accepted",
        "False/NotOwned",
        "False/NotOwned",
        "False/NoEndpoint",
        error="NotOwned",
        previous=ServedModelStatus(observed_generation=1, file=FILE),
    ),
    Row(
        "a foreign NetworkPolicy has our name while pods serve",
        Observed(
            foreign="The NetworkPolicy tiny-serving", pods=(pod(inspection=READ, ready=True),)
        ),
        "loaded",
        "True/Accepted",
        "False/NotOwned",
        "False/NotOwned",
        "True/Available",
    ),
    Row(
        "a bad file comes before a foreign object",
        Observed(
            foreign="The Deployment tiny-serving",
            inspection=InspectionObservation(Inspection(error=refused(Reason.TRUNCATED))),
        ),
        "failed",
        "False/Truncated",
        "False/Truncated",
        "False/Truncated",
        "False/NoEndpoint",
        error="Truncated",
    ),
    Row(
        "suspended",
        Observed(),
        "unloaded",
        "True/Accepted",
        "False/Suspended",
        "True/Suspended",
        "False/Suspended",
        error="Suspended",
        previous=ServedModelStatus(observed_generation=1, file=FILE),
        spec={"suspend": True, "replicas": 2},
    ),
    Row(
        "suspending",
        Observed(pods=(pod(inspection=READ, terminating=True),)),
        "unloading",
        "True/Accepted",
        "True/Draining",
        "False/Draining",
        "False/Suspended",
        error="Suspended",
        previous=ServedModelStatus(observed_generation=1, file=FILE),
        spec={"suspend": True},
    ),
    Row(
        "suspended, but a pod still answers",
        Observed(pods=(pod(inspection=READ, ready=True),)),
        "loaded",
        "True/Accepted",
        "True/Draining",
        "False/Draining",
        "True/Available",
        spec={"suspend": True},
    ),
    Row(
        "suspended, with a bad file",
        Observed(inspection=InspectionObservation(Inspection(error=refused(Reason.TRUNCATED)))),
        "failed",
        "False/Truncated",
        "False/Suspended",
        "True/Suspended",
        "False/Suspended",
        error="Truncated",
        spec={"suspend": True},
    ),
    Row(
        "a Job is to inspect the file",
        Observed(inspection_hash="h"),
        "requested",
        "Unknown/Inspecting",
        "True/Inspecting",
        "False/Inspecting",
        "False/NoEndpoint",
    ),
    Row(
        "a Job inspects the file",
        Observed(inspection_hash="h", inspection=InspectionObservation()),
        "requested",
        "Unknown/Inspecting",
        "True/Inspecting",
        "False/Inspecting",
        "False/NoEndpoint",
    ),
    Row(
        "the Job found a model",
        Observed(inspection_hash="h", inspection=InspectionObservation(READ)),
        "requested",
        "True/Accepted",
        "True/Starting",
        "False/Starting",
        "False/NoEndpoint",
    ),
    Row(
        "the Job found a bad file while an old pod serves",
        Observed(
            inspection_hash="h",
            inspection=InspectionObservation(Inspection(error=refused(Reason.NOT_A_MODEL))),
            pods=(pod("old", current=False, ready=True),),
        ),
        "loaded",
        "False/NotAModel",
        "False/NotAModel",
        "False/NotAModel",
        "True/Available",
        error="NotAModel",
    ),
    Row(
        "the Job's pod cannot run",
        Observed(
            inspection_hash="h",
            inspection=InspectionObservation(fault=refused(Reason.IMAGE_PULL_BACK_OFF)),
        ),
        "failed",
        "Unknown/Inspecting",
        "True/ImagePullBackOff",
        "False/ImagePullBackOff",
        "False/NoEndpoint",
        error="ImagePullBackOff",
    ),
    Row(
        "the Job could not fetch for a passing cause",
        Observed(
            inspection_hash="h",
            inspection=InspectionObservation(Inspection(error=OUT_OF_SPACE)),
        ),
        "failed",
        "Unknown/Inspecting",
        "True/FetchFailed",
        "False/FetchFailed",
        "False/NoEndpoint",
        error="FetchFailed",
    ),
    Row(
        "a source that could not be reached is inspected again",
        Observed(inspection_hash="h", inspection=InspectionObservation()),
        "failed",
        "False/SourceUnreachable",
        "False/SourceUnreachable",
        "False/SourceUnreachable",
        "False/NoEndpoint",
        error="SourceUnreachable",
        previous=ServedModelStatus(observed_generation=1, error=refused(Reason.SOURCE_UNREACHABLE)),
    ),
    Row(
        "a verdict outlives a spec that asks for the same inspection",
        Observed(inspection_hash="h"),
        "requested",
        "True/Accepted",
        "True/Starting",
        "False/Starting",
        "False/NoEndpoint",
        previous=ServedModelStatus(observed_generation=0, inspection_hash="h", file=FILE),
    ),
    Row(
        "a verdict on another source is forgotten",
        Observed(inspection_hash="h"),
        "requested",
        "Unknown/Inspecting",
        "True/Inspecting",
        "False/Inspecting",
        "False/NoEndpoint",
        previous=ServedModelStatus(observed_generation=1, inspection_hash="g", file=FILE),
    ),
    Row(
        "an external server that is suspended",
        Observed(external=True),
        "unloaded",
        "True/Accepted",
        "False/Suspended",
        "True/Suspended",
        "False/Suspended",
        error="Suspended",
        spec={"runtime": "external", "endpoint": {"url": "http://h"}, "suspend": True},
    ),
    Row(
        "an external server",
        Observed(external=True),
        "loading",
        "True/Accepted",
        "False/RolledOut",
        "True/RolledOut",
        "Unknown/NotObserved",
    ),
]


def told(condition: Condition) -> str:
    return f"{condition.status}/{condition.reason}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_verdicts(row: Row) -> None:
    model = served_model(**row.spec).model_copy(update={"status": row.previous})
    status = build_status(model, row.observed, NOW)
    assert status.load_state == row.load_state
    assert {c.type: told(c) for c in status.conditions} == {
        ConditionType.ACCEPTED: row.accepted,
        ConditionType.PROGRESSING: row.progressing,
        ConditionType.READY: row.ready,
        ConditionType.SERVABLE: row.servable,
    }
    assert (status.error.reason if status.error else None) == row.error
    assert all(condition.message for condition in status.conditions)


def test_every_permanent_reason_stands_in_the_table() -> None:
    assert {row.error for row in ROWS if row.load_state == "failed"} >= PERMANENT_REASONS


def test_every_reason_of_a_fault_stands_in_the_table() -> None:
    verdicts = {row.accepted for row in ROWS} | {row.progressing for row in ROWS}
    verdicts |= {row.ready for row in ROWS} | {row.servable for row in ROWS}
    assert {verdict.partition("/")[2] for verdict in verdicts} == set(Reason)


def test_the_sentence_of_whoever_knows_is_the_conditions() -> None:
    sentence = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    waiting = pod(waiting=Reason.UNSCHEDULABLE, message=sentence)
    status = build_status(served_model(), Observed(pods=(waiting,)), NOW)
    assert status.error == Fault(reason=Reason.UNSCHEDULABLE, message=sentence)
    assert [c.message for c in status.conditions if c.type == "Progressing"] == [sentence]
    failed = pod(fetch_failed=True, message="the cache is full")
    status = build_status(served_model(), Observed(pods=(failed,)), NOW)
    assert status.error and status.error.message == "the cache is full"


def test_who_stands_in_the_way_of_an_inspection_is_said() -> None:
    job = InspectionObservation(fault=refused(Reason.UNSCHEDULABLE))
    status = build_status(served_model(), Observed(inspection_hash="h", inspection=job), NOW)
    accepted = status.conditions[0]
    assert accepted.message == "The file was not inspected yet. Because of Unschedulable."
    assert status.load_state is LoadState.REQUESTED


def test_a_foreign_object_is_named() -> None:
    status = build_status(served_model(), Observed(foreign="The Secret tiny-engine-key"), NOW)
    assert status.error and status.error.message.startswith("The Secret tiny-engine-key exists")


def inspected_then(*observed: Observed, spec: dict[str, Any] | None = None) -> ServedModel:
    model = served_model(**(spec or {}))
    for one in observed:
        model = advance(model, one, NOW)
    return model


def test_when_a_job_is_due() -> None:
    wanted = Observed(inspection_hash="h")
    running = replace(wanted, inspection=InspectionObservation())
    found = replace(wanted, inspection=InspectionObservation(READ))
    assert inspection_due(served_model(), wanted)
    assert not inspection_due(served_model(), running)
    assert not inspection_due(served_model(), Observed())
    known = inspected_then(wanted, running, found)
    assert known.status.inspection_hash == "h"
    assert not inspection_due(known, wanted)
    assert inspection_due(known, replace(wanted, inspection_hash="other"))
    assert not inspection_due(advance(known, wanted, LATER), wanted)


@pytest.mark.parametrize("reason", sorted(PERMANENT_REASONS | {Reason.FETCH_FAILED}))
def test_a_bad_file_is_inspected_again_only_if_that_may_help(reason: Reason) -> None:
    wanted = Observed(inspection_hash="h")
    verdict = InspectionObservation(Inspection(error=refused(reason)))
    model = inspected_then(wanted, replace(wanted, inspection=verdict))
    final = reason in PERMANENT_REASONS and reason not in RETRIED
    assert inspection_due(model, wanted) is not final


def test_a_verdict_that_another_refusal_hid_is_found_again() -> None:
    wanted = Observed(inspection_hash="h")
    bad = InspectionObservation(Inspection(error=refused(Reason.NOT_A_MODEL)))
    hidden = replace(wanted, profile_found=False)
    model = inspected_then(replace(wanted, inspection=bad), replace(hidden, inspection=bad), hidden)
    assert inspection_due(model, wanted)


def told_by(mode: EngineMode, **facts: Any) -> PodDescriptor:
    runtime = RuntimeFacts(**facts)
    return PodDescriptor(state=PodState.READY, mode=mode, mode_reason="why", runtime=runtime)


def test_what_the_engine_says_is_kept_at_zero_for_its_own_spec() -> None:
    descriptor = told_by(EngineMode.EMBED, slots=2, device="cpu")
    serving = pod(inspection=READ, ready=True, descriptor=descriptor)
    model = inspected_then(Observed(spec_hash="s", pods=(serving,)))
    expected = RuntimeStatus(mode=EngineMode.EMBED, mode_reason="why", slots=2, device="cpu")
    assert model.status.runtime == expected
    at_zero = advance(model, Observed(spec_hash="s", desired_replicas=0), LATER)
    assert at_zero.status.runtime == expected
    changed = advance(at_zero, Observed(spec_hash="t", desired_replicas=0), LATER)
    assert (changed.status.runtime, changed.status.spec_hash) == (None, "t")


@pytest.mark.parametrize("changes", [{"ready": False}, {"descriptor": None}, {"terminating": True}])
def test_only_a_pod_that_serves_speaks_for_the_runtime(changes: dict[str, Any]) -> None:
    serving = pod(ready=True, descriptor=told_by(EngineMode.GENERATE, slots=2))
    silent = replace(serving, **changes)
    assert build_status(served_model(), Observed(pods=(silent,)), NOW).runtime is None


def test_what_a_load_goes_back_to() -> None:
    model = advance(served_model(replicas=3), Observed(), NOW)
    assert model.status.last_replicas == 3
    spec = model.spec.model_copy(update={"replicas": 0})
    at_zero = advance(model.model_copy(update={"spec": spec}), Observed(), LATER)
    assert at_zero.status.last_replicas == 3
    assert build_status(served_model(replicas=0), Observed(), NOW).last_replicas == 0


def test_what_autoscalers_and_catalogues_read() -> None:
    model = served_model(alias="team/tiny", profile="long")
    status = build_status(model, Observed(spec_hash="s"), NOW)
    assert (status.catalogue_id, status.spec_hash) == ("team/tiny@long", "s")
    assert status.selector == selector_text(model)
    external = build_status(external_model("http://h"), Observed(external=True), NOW)
    assert external.selector == ""


def test_the_effective_identity_the_file_and_the_counts() -> None:
    pods = (pod("1", terminating=True, ready=True), pod("2", inspection=READ, ready=True))
    model = served_model("tiny", alias="team/tiny", profile="long")
    status = build_status(model, Observed(pods=pods), NOW)
    assert (status.model, status.profile) == ("team/tiny", "long")
    assert status.file == FILE
    assert (status.replicas, status.servable_replicas) == (2, 1)
    assert status.observed_generation == model.metadata.generation


def advance(model: ServedModel, observed: Observed, now: datetime) -> ServedModel:
    return model.model_copy(update={"status": build_status(model, observed, now)})


def times(model: ServedModel) -> dict[ConditionType, datetime]:
    return {c.type: c.last_transition_time for c in model.status.conditions}


def test_a_transition_time_is_that_of_the_status_and_not_of_the_reason() -> None:
    first = advance(served_model(), Observed(pods=(pod(),)), NOW)
    failing = replace(pod(), fetch_failed=True)
    second = advance(first, Observed(pods=(failing,)), LATER)
    assert told(first.status.conditions[1]) == "True/Starting"
    assert told(second.status.conditions[1]) == "True/FetchFailed"
    assert times(second) == times(first)
    third = advance(second, Observed(pods=(pod(inspection=READ, ready=True),)), LATER)
    assert set(times(third).values()) == {LATER}


def test_what_is_known_of_the_file_survives_a_pods_replacement() -> None:
    serving = advance(served_model(), Observed(pods=(pod(inspection=READ, ready=True),)), NOW)
    replaced = advance(serving, Observed(pods=(pod("2"),)), LATER)
    assert replaced.status.file == FILE
    assert told(replaced.status.conditions[0]) == "True/Accepted"


#: What is no fault, but the end of all movement.
SETTLED = {Reason.ROLLED_OUT, Reason.SCALED_TO_ZERO, Reason.SUSPENDED}
FAULTS = st.builds(
    Fault, reason=st.sampled_from(sorted(set(Reason) - SETTLED)), message=st.just("m")
)
PODS = st.builds(
    PodObservation,
    uid=st.sampled_from("abc"),
    current=st.booleans(),
    waiting=st.none() | st.sampled_from([Reason.UNSCHEDULABLE, Reason.OOM_KILLED]),
    message=st.sampled_from(["", "m"]),
    inspection=st.none() | st.just(READ) | st.builds(Inspection, error=FAULTS),
    fetch_failed=st.booleans(),
    ready=st.booleans(),
    terminating=st.booleans(),
    engine_fault=st.none() | FAULTS,
    restarts=st.integers(0, 3),
)
OBSERVED = st.builds(
    Observed,
    profile_found=st.booleans(),
    duplicate=st.booleans(),
    refused=st.none() | FAULTS,
    foreign=st.sampled_from(["", "The Deployment x"]),
    desired_replicas=st.none() | st.integers(0, 2),
    workload_fault=st.none() | FAULTS,
    inspection=st.none()
    | st.builds(
        InspectionObservation,
        result=st.none() | st.just(READ) | st.builds(Inspection, error=FAULTS),
        fault=st.none() | FAULTS,
    ),
    inspection_hash=st.sampled_from(["", "h"]),
    pods=st.lists(PODS, max_size=3).map(tuple),
)
PREVIOUS = st.builds(
    ServedModelStatus,
    observed_generation=st.integers(0, 1),
    inspection_hash=st.sampled_from(["", "h", "g"]),
    file=st.none() | st.just(FILE),
    error=st.none() | FAULTS,
)


@given(OBSERVED, PREVIOUS, st.booleans())
def test_servable_says_whether_something_answers_and_nothing_else(
    observed: Observed, previous: ServedModelStatus, suspend: bool
) -> None:
    model = served_model(suspend=suspend).model_copy(update={"status": previous})
    status = build_status(model, observed, NOW)
    verdict = {condition.type: condition.status for condition in status.conditions}
    answers = any(pod.ready and not pod.terminating for pod in observed.pods)
    assert (verdict[ConditionType.SERVABLE] == "True") is answers
    assert (status.load_state is LoadState.LOADED) is answers
    assert (status.servable_replicas > 0) is answers
    if verdict[ConditionType.ACCEPTED] == "False":
        assert status.error is not None, "a refusal without a reason helps nobody"
    if status.load_state is LoadState.FAILED:
        assert status.error is not None


@given(OBSERVED, PREVIOUS)
def test_a_status_is_written_once_for_what_is_observed(
    observed: Observed, previous: ServedModelStatus
) -> None:
    """The same observation again changes nothing: an idle minute writes nothing."""
    model = served_model().model_copy(update={"status": previous})
    first = advance(model, observed, NOW)
    second = advance(first, observed, LATER)
    third = advance(second, observed, LATER + timedelta(minutes=1))
    assert third.status == second.status
    assert second.status.conditions == first.status.conditions


@given(OBSERVED)
def test_ready_is_never_claimed_for_an_earlier_generation(observed: Observed) -> None:
    verdict = {c.type: c for c in build_status(served_model(), observed, NOW).conditions}
    if verdict[ConditionType.READY].reason == Reason.ROLLED_OUT:
        current = [p for p in observed.pods if p.ready and p.current and not p.terminating]
        assert len(current) >= (observed.desired_replicas or 1)


@given(st.none() | FAULTS)
def test_nobody_but_routers_sees_an_external_server(fault: Fault | None) -> None:
    model = external_model("http://127.0.0.1:1")
    status = build_status(model, Observed(external=True, refused=fault), NOW)
    expected = LoadState.LOADING if fault is None else LoadState.FAILED
    assert status.load_state is expected
    assert not any(
        condition.type is ConditionType.SERVABLE and condition.status == "True"
        for condition in status.conditions
    )
