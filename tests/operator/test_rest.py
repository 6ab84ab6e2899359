"""When a model may be put to rest, by a clock that a test moves."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.demand import RENEW_SECONDS
from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.vocabulary import LoadState, Reason
from pumas_operator.rest import FALL_BACK_SECONDS, Uses
from support.models import served_model

IDLE = 600


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def uses(clock: Clock) -> Uses:
    return Uses(clock)


def model(**activation: Any) -> ServedModel:
    return served_model(activation={"onDemand": True, "idleSeconds": IDLE} | activation)


def status(state: LoadState = LoadState.LOADED, reason: Reason | None = None) -> ServedModelStatus:
    error = None if reason is None else Fault(reason=reason)
    return ServedModelStatus(load_state=state, error=error)


def test_it_rests_when_nobody_wanted_it_for_so_long(uses: Uses, clock: Clock) -> None:
    assert uses.seconds_to_rest(model(), status()) == IDLE
    clock.now += IDLE - 1
    assert uses.seconds_to_rest(model(), status()) == 1
    uses.wanted(model().metadata.uid)
    assert uses.seconds_to_rest(model(), status()) == IDLE
    clock.now += IDLE
    assert uses.seconds_to_rest(model(), status()) == 0


def test_another_models_use_is_no_use(uses: Uses, clock: Clock) -> None:
    uses.seconds_to_rest(model(), status())
    clock.now += IDLE
    uses.wanted("another")
    assert uses.seconds_to_rest(model(), status()) == 0


def test_it_counts_from_when_it_serves(uses: Uses, clock: Clock) -> None:
    assert uses.seconds_to_rest(model(), status(LoadState.LOADING)) is None
    clock.now += 10 * IDLE
    assert uses.seconds_to_rest(model(), status()) == IDLE


def test_an_interruption_gives_everybody_two_renewals_to_be_heard(uses: Uses, clock: Clock) -> None:
    uses.seconds_to_rest(model(), status())
    clock.now += IDLE
    uses.interrupted()
    assert uses.seconds_to_rest(model(), status()) == 2 * RENEW_SECONDS
    clock.now += 2 * RENEW_SECONDS
    assert uses.seconds_to_rest(model(), status()) == 0


@pytest.mark.parametrize(
    "state", [state for state in LoadState if state not in (LoadState.LOADED, LoadState.FAILED)]
)
def test_in_no_other_state_it_is_put_to_rest(uses: Uses, clock: Clock, state: LoadState) -> None:
    for _ in range(3):
        assert uses.seconds_to_rest(model(), status(state)) is None
        clock.now += 10 * IDLE


@pytest.mark.parametrize(
    "spec",
    [
        {"activation": {"onDemand": False}},
        {},
        {"activation": {"onDemand": True}, "replicas": 0},
        {"activation": {"onDemand": True}, "suspend": True},
    ],
)
def test_it_has_to_be_loaded_on_demand_and_wanted(
    uses: Uses, clock: Clock, spec: dict[str, Any]
) -> None:
    uses.seconds_to_rest(served_model(**spec), status())
    clock.now += 10 * IDLE
    assert uses.seconds_to_rest(served_model(**spec), status()) is None


@pytest.mark.parametrize(
    "reason", [Reason.OOM_KILLED, Reason.ENGINE_FAILED, Reason.CRASH_LOOP_BACK_OFF, Reason.FETCH_FAILED]
)  # fmt: skip
def test_what_fails_for_a_while_rests_after_a_minute(
    uses: Uses, clock: Clock, reason: Reason
) -> None:
    failed = status(LoadState.FAILED, reason)
    assert uses.seconds_to_rest(model(), failed) == FALL_BACK_SECONDS
    clock.now += FALL_BACK_SECONDS
    assert uses.seconds_to_rest(model(), failed) == 0


@pytest.mark.parametrize(
    "reason", [Reason.NOT_A_MODEL, Reason.DIGEST_MISMATCH, Reason.UNSCHEDULABLE, Reason.NOT_OWNED, None]
)  # fmt: skip
def test_what_fails_for_good_or_waits_stays_as_it_is(
    uses: Uses, clock: Clock, reason: Reason | None
) -> None:
    failed = status(LoadState.FAILED, reason)
    uses.seconds_to_rest(model(), failed)
    clock.now += 10 * FALL_BACK_SECONDS
    assert uses.seconds_to_rest(model(), failed) is None


def test_what_is_gone_is_forgotten(uses: Uses, clock: Clock) -> None:
    uses.seconds_to_rest(model(), status())
    uses.wanted(model().metadata.uid)
    clock.now += IDLE
    uses.forget(model().metadata.uid)
    assert uses.seconds_to_rest(model(), status()) == IDLE
