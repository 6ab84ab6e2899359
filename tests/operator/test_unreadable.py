"""Objects that this release cannot read: named, answered, and no obstacle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import LoadState, Reason
from pumas_operator.unreadable import build_unreadable_status, read_model

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def body(**members: Any) -> dict[str, Any]:
    metadata = {"name": "tiny", "uid": "u", "generation": 3, "managedFields": []}
    return {
        "apiVersion": "serving.pumas.dev/v1alpha1",
        "kind": "ServedModel",
        "metadata": metadata,
        "spec": {"source": {"path": "/m.gguf"}},
        **members,
    }


def test_a_model_is_read() -> None:
    read = read_model(body())
    assert isinstance(read, ServedModel) and read.metadata.generation == 3


@pytest.mark.parametrize("status", [{"loadState": "new-word"}, {"conditions": 1}, "text"])
def test_a_status_that_cannot_be_read_is_none(status: object) -> None:
    read = read_model(body(status=status))
    assert isinstance(read, ServedModel)
    assert read.status.load_state is LoadState.UNLOADED


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"source": {"path": "m"}, "laterField": 1}, "spec.laterField: Extra inputs are not"),
        ({}, "spec: source is required, except with runtime external"),
        ({"source": {"path": "m"}, "replicas": "x"}, "spec.replicas: Input should be a valid"),
    ],
)
def test_the_field_at_fault_is_named(spec: dict[str, Any], sentence: str) -> None:
    fault = read_model(body(spec=spec))
    assert isinstance(fault, Fault) and fault.reason is Reason.INVALID_SPEC
    assert fault.message.startswith(sentence)


def test_its_status_says_so_and_keeps_the_time() -> None:
    document = body(spec={})
    fault = read_model(document)
    assert isinstance(fault, Fault)
    status = build_unreadable_status(document, fault, NOW)
    assert (status.load_state, status.observed_generation) == (LoadState.FAILED, 3)
    assert status.error == fault
    (accepted,) = status.conditions
    assert (accepted.status, accepted.reason) == ("False", "InvalidSpec")
    assert accepted.last_transition_time == NOW
    written = status.model_dump(mode="json", by_alias=True)
    again = build_unreadable_status({**document, "status": written}, fault, NOW + timedelta(1))
    assert again == status


def test_a_condition_that_was_true_changes_now() -> None:
    before = {"type": "Accepted", "status": "True", "lastTransitionTime": "2029-01-01T00:00:00Z"}
    document = body(spec={}, status={"conditions": [before]})
    fault = Fault(reason=Reason.INVALID_SPEC, message="m")
    (accepted,) = build_unreadable_status(document, fault, NOW).conditions
    assert accepted.last_transition_time == NOW
