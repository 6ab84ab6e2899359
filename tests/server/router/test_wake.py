"""The next step of a load, as a table over what the model is."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import Reason
from pumas_server.router.catalog import build_catalog
from pumas_server.router.catalog_row import Row
from pumas_server.router.observations import Observation
from pumas_server.router.source import Endpoint, ModelRecord
from pumas_server.router.wake import GONE, UNLOADED, Awake, Fails, Scale, Wait, decide_wake

ENDPOINT = Endpoint("pod", "http://pod", "http://supervisor", True)
BROKEN = {"reason": "NotAModel", "message": "no model"}
SHORT = {"reason": "OOMKilled", "message": "too large"}


def row(version: int = 1, *, answers: bool = False, spec: Any = None, **status: Any) -> Row:
    model = ServedModel.model_validate(
        {
            "metadata": {"name": "m", "uid": "m", "resourceVersion": str(version)},
            "spec": {
                "source": {"path": "/m.gguf"},
                "replicas": 0,
                "activation": {"onDemand": True},
                **(spec or {}),
            },
            "status": status,
        }
    )
    record = ModelRecord(model, "hash", (ENDPOINT,) if answers else ())
    said = Observation()
    said = said if not answers else Observation(facts=said.facts.__class__(ready=True))
    (found,) = build_catalog([record], {("m", "pod", "http://pod"): said}, 64).rows
    return found


AT_ZERO = row(loadState="unloaded")
LAST_TWO = row(loadState="unloaded", lastReplicas=2)
AFTER_A_FAULT = row(loadState="unloaded", error=SHORT)
FAILED = row(loadState="failed", error=BROKEN)
GOING = row(loadState="unloading")
WANTED = row(2, spec={"replicas": 1}, loadState="requested")
UNSCHEDULABLE = row(
    2, spec={"replicas": 1}, loadState="loading", error={"reason": "Unschedulable", "message": ""}
)
CRASHING = row(2, spec={"replicas": 1}, loadState="failed", error=SHORT)
SERVES = row(2, answers=True, spec={"replicas": 1}, loadState="loaded")
SUSPENDED = row(spec={"suspend": True}, loadState="unloaded")
UNLOADED_SINCE = row(3, loadState="unloaded")
FELL_BACK = row(3, loadState="unloaded", error=SHORT)


@pytest.mark.parametrize(
    "found, scaled_from, step",
    [
        pytest.param(None, None, Fails(GONE), id="deleted"),
        pytest.param(SERVES, None, Awake(SERVES), id="awake"),
        pytest.param(SERVES, "1", Awake(SERVES), id="awake at last"),
        pytest.param(AT_ZERO, None, Scale(AT_ZERO, 1), id="at zero"),
        pytest.param(LAST_TWO, None, Scale(LAST_TWO, 2), id="back to what it was"),
        pytest.param(AFTER_A_FAULT, None, Scale(AFTER_A_FAULT, 1), id="once more after a fault"),
        pytest.param(GOING, None, Scale(GOING, 1), id="on its way out"),
        pytest.param(AT_ZERO, "1", Wait(), id="not seen yet"),
        pytest.param(WANTED, "1", Wait(), id="on its way"),
        pytest.param(WANTED, None, Wait(), id="somebody else loads it"),
        pytest.param(UNSCHEDULABLE, "1", Wait(), id="waits for a node"),
    ],
)
def test_the_next_step(found: Row | None, scaled_from: str | None, step: object) -> None:
    assert decide_wake(found, scaled_from) == step


@pytest.mark.parametrize(
    "found, scaled_from, reason",
    [
        (FAILED, None, Reason.NOT_A_MODEL),
        (CRASHING, None, Reason.OOM_KILLED),
        (CRASHING, "1", Reason.OOM_KILLED),
        (FELL_BACK, "1", Reason.OOM_KILLED),
        (SUSPENDED, None, Reason.SUSPENDED),
    ],
)
def test_the_fault_that_ends_it(found: Row, scaled_from: str | None, reason: Reason) -> None:
    step = decide_wake(found, scaled_from)
    assert isinstance(step, Fails)
    assert step.fault.reason == reason


def test_what_is_unloaded_meanwhile_is_not_loaded_again() -> None:
    assert decide_wake(UNLOADED_SINCE, "1") == Fails(UNLOADED)
    assert isinstance(UNLOADED, Fault)
