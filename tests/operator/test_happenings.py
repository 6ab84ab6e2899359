"""Events: one for each change, under a name that makes it one."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.served_model import ServedModelStatus
from pumas_operator.happenings import build_events
from support.cluster_objects import model_object

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def status(*conditions: tuple[str, str, str], message: str = "Why.") -> ServedModelStatus:
    return ServedModelStatus.model_validate(
        {
            "conditions": [
                {
                    "type": kind,
                    "status": holds,
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": NOW,
                }
                for kind, holds, reason in conditions
            ]
        }
    )


def events(
    before: ServedModelStatus,
    after: ServedModelStatus,
    now: datetime = NOW,
    **told: Any,
) -> list[Any]:
    return list(build_events(model_object(**told), before, after, now))


def test_a_change_is_told_with_its_model_reason_and_sentence() -> None:
    [event] = events(
        status(("Accepted", "Unknown", "Inspecting")), status(("Accepted", "False", "NotAModel"))
    )
    assert event["message"] == "Accepted is False: Why."
    assert (event["reason"], event["type"]) == ("NotAModel", "Warning")
    assert event["involvedObject"]["uid"] == "uid-of-tiny"
    assert event["involvedObject"]["kind"] == "ServedModel"
    assert event["metadata"]["namespace"] == event["involvedObject"]["namespace"] == "team"
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2030-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (status(("Servable", "True", "Available")), status(("Servable", "True", "Available"))),
        (
            status(("Servable", "True", "Available")),
            status(("Servable", "True", "Available"), message="Otherwise."),
        ),
        (status(), status(("Servable", "False", "NoEndpoint"))),
        (status(("Ready", "False", "Starting")), status(("Ready", "True", "Available"))),
        (status(("Servable", "True", "Available")), status()),
    ],
    ids=["the same", "a sentence", "the beginning", "told by another", "gone"],
)
def test_what_is_no_change_is_not_told(before: ServedModelStatus, after: ServedModelStatus) -> None:
    assert events(before, after) == []


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        (("Accepted", "True", "Accepted"), "Normal"),
        (("Servable", "True", "Available"), "Normal"),
        (("Servable", "False", "Draining"), "Normal"),
        (("Servable", "False", "ScaledToZero"), "Normal"),
        (("Progressing", "True", "Starting"), "Normal"),
        (("Progressing", "True", "Unschedulable"), "Warning"),
        (("Progressing", "False", "RolledOut"), "Normal"),
        (("Progressing", "False", "NotOwned"), "Warning"),
        (("Accepted", "False", "InvalidSpec"), "Warning"),
        (("Servable", "False", "EngineFailed"), "Warning"),
    ],
)
def test_only_what_somebody_should_look_at_is_a_warning(
    condition: tuple[str, str, str], kind: str
) -> None:
    [event] = events(status(), status(condition))
    assert event["type"] == kind


def test_a_change_seen_twice_has_one_name_and_another_change_another() -> None:
    before, after = (
        status(("Servable", "False", "Starting")),
        status(("Servable", "True", "Available")),
    )
    [once], [again] = events(before, after), events(before, after)
    assert once["metadata"] == again["metadata"]
    others = [
        events(before, after, NOW.replace(second=1)),
        events(before, after, uid="another"),
        events(status(), status(("Servable", "False", "EngineFailed"))),
    ]
    names = {event["metadata"]["name"] for [event] in others}
    assert len(names | {once["metadata"]["name"]}) == 4


@given(st.from_regex(NAME, fullmatch=True).filter(lambda name: len(name) <= 253))
def test_its_name_is_one_that_the_cluster_takes(name: str) -> None:
    """Whatever the model is called, whose own name may be as long as that of any object."""
    for called in (name, (name * 253)[:252] + "x"):
        [event] = events(status(), status(("Accepted", "True", "Accepted")), name=called)
        told = event["metadata"]["name"]
        assert len(told) <= 253
        if NAME.fullmatch(called):
            assert NAME.fullmatch(told)


def test_a_sentence_that_is_too_long_is_cut() -> None:
    long = status(("Accepted", "False", "NotAModel"), message="x" * 1024)
    [event] = events(status(), long)
    assert len(event["message"]) == 1024
