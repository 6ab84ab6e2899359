"""Status: a table of what is observed and what is said of it, and what always holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.facts import Fault, FileFacts, Inspection
from pumas_crds.resource import Condition
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.vocabulary import PERMANENT_REASONS, ConditionType, LoadState, Reason
from pumas_operator.status import Observed, PodObservation, build_status
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
    model = served_model().model_copy(update={"status": row.previous})
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


FAULTS = st.builds(Fault, reason=st.sampled_from(Reason), message=st.just("m"))
PODS = st.builds(
    PodObservation,
    uid=st.sampled_from("abc"),
    current=st.booleans(),
    waiting=st.none() | st.sampled_from([Reason.UNSCHEDULABLE, Reason.OOM_KILLED]),
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
    desired_replicas=st.integers(0, 2),
    pods=st.lists(PODS, max_size=3).map(tuple),
)
PREVIOUS = st.builds(
    ServedModelStatus,
    observed_generation=st.integers(0, 1),
    file=st.none() | st.just(FILE),
    error=st.none() | FAULTS,
)


@given(OBSERVED, PREVIOUS)
def test_servable_says_whether_something_answers_and_nothing_else(
    observed: Observed, previous: ServedModelStatus
) -> None:
    model = served_model().model_copy(update={"status": previous})
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
