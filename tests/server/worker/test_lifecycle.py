"""The life of an engine, as a table of what each event makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pumas_crds.facts import Fault, PodState
from pumas_crds.vocabulary import Reason
from pumas_server.worker.lifecycle import (
    Answered,
    Drain,
    End,
    Event,
    Failed,
    GiveUp,
    HealthAsked,
    Life,
    Start,
    Started,
    StopAsked,
    Wait,
    advance,
    begin_drain,
)

FAULT = Fault(reason=Reason.ENGINE_FAILED, message="The engine ended.")


def live(*events: Event) -> Life:
    life = Life()
    for event in events:
        life, _ = advance(life, event)
    return life


READY = live(Started(0, "boot-1"), Answered(1))


def test_a_pod_begins_as_starting_without_a_boot() -> None:
    assert Life().state is PodState.STARTING
    assert Life().boot_id == ""


def test_ready_only_after_the_warm_up_was_answered() -> None:
    started = live(Started(0, "boot-1"))
    assert (started.state, started.boot_id, started.restarts) == (PodState.STARTING, "boot-1", 0)
    assert READY.state is PodState.READY


def test_a_failure_is_told_until_the_engine_is_ready_again() -> None:
    failed, action = advance(READY, Failed(10, FAULT))
    assert (failed.state, failed.error, action) == (PodState.FAILED, FAULT, Start(0.25))
    again, _ = advance(failed, Started(10.25, "boot-2"))
    assert (again.state, again.error) == (PodState.STARTING, FAULT)
    assert (again.boot_id, again.restarts) == ("boot-2", 1)
    well, _ = advance(again, Answered(11))
    assert (well.state, well.error, well.restarts) == (PodState.READY, None, 1)


def test_a_run_that_never_started_is_no_restart() -> None:
    assert live(Failed(0, FAULT), Started(1, "boot-1")).restarts == 0


def test_the_delay_doubles_up_to_half_a_minute() -> None:
    life, delays = Life(), []
    for at in range(10):
        life, action = advance(life, Failed(at, FAULT))
        assert isinstance(action, Start)
        delays.append(action.after_seconds)
    assert delays == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize(("ready_for", "delay"), [(59.9, 1.0), (60.0, 0.25)])
def test_only_a_steady_engine_is_forgiven(ready_for: float, delay: float) -> None:
    life = live(Failed(0, FAULT), Failed(1, FAULT), Started(2, "boot-1"), Answered(3))
    _, action = advance(life, Failed(3 + ready_for, FAULT))
    assert action == Start(delay)


def test_a_year_of_failures_is_no_overflow() -> None:
    _, action = advance(replace(Life(), failures=1_000_000), Failed(0, FAULT))
    assert action == Start(30)


@pytest.mark.parametrize("state", [live(Started(0, "b")), READY], ids=["starting", "ready"])
def test_a_silent_engine_is_given_up_after_a_minute_and_not_before(state: Life) -> None:
    state, _ = advance(state, HealthAsked(100, alive=True))
    for at, expected in [(102, Wait), (161.9, Wait), (162, GiveUp)]:
        state, action = advance(state, HealthAsked(at, alive=False))
        assert isinstance(action, expected), at


def test_one_answer_ends_the_silence() -> None:
    life = live(Started(0, "b"), Answered(1), HealthAsked(10, False), HealthAsked(60, True))
    assert advance(life, HealthAsked(80, alive=False))[1] == Wait()


def test_an_engine_that_never_answers_is_silent_from_its_start() -> None:
    assert isinstance(advance(live(Started(5, "b")), HealthAsked(65, alive=False))[1], GiveUp)


@pytest.mark.parametrize(
    ("life", "action"),
    [
        (READY, Drain()),
        (Life(), End()),
        (live(Started(0, "b")), End()),
        (live(Failed(0, FAULT)), End()),
    ],
    ids=["ready", "new", "starting", "failed"],
)
def test_only_an_engine_that_serves_is_drained(life: Life, action: object) -> None:
    stopping, told = advance(life, StopAsked(10))
    assert (stopping.state, told) == (PodState.DRAINING, action)


@pytest.mark.parametrize(
    "event",
    [
        Started(20, "b"),
        Answered(20),
        Failed(20, FAULT),
        HealthAsked(900, False),
        StopAsked(20),
    ],
)
def test_nothing_leaves_draining(event: Event) -> None:
    draining, _ = advance(READY, StopAsked(10))
    assert advance(draining, event) == (draining, Wait())


@pytest.mark.parametrize(
    ("propagation", "readings", "over"),
    [
        (0, [0], True),
        (0, [1], False),
        (5, [0], False),
        (5, [0, 0], True),
        (5, [0, 1, 0], False),
        (5, [0, 1, 0, 0], True),
    ],
)
def test_a_drain_is_over_when_idle(propagation: float, readings: list[int], over: bool) -> None:
    wait = begin_drain(100, 30, propagation)
    for busy in readings:
        wait = wait.read(busy)
    assert wait.over(101) is over


def test_a_drain_is_over_at_its_deadline() -> None:
    wait = begin_drain(100, 30, 5).read(3)
    assert not wait.over(129.9)
    assert wait.over(130)
