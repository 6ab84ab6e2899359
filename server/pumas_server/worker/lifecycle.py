"""The life of an engine under its supervisor: events in, the next life and action out. Pure.

    starting ──answered──► ready ──failed──► failed ──back-off, started──► starting
    any ──stop──► draining, from which nothing starts again

Slow is not dead: only an ended process or a minute without any answer to `/health` is a failure.
Time is told by the events, in seconds of one monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from pumas_crds.facts import Fault, PodState
from pumas_crds.vocabulary import Reason

FIRST_DELAY_SECONDS = 0.25
LONGEST_DELAY_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""Ready for so long: the next failure is a new one, with the first delay."""
SILENCE_SECONDS = 60.0
"""Without an answer to `/health` for so long: the engine is given up."""


@dataclass(frozen=True, slots=True)
class Started:
    """The engine process runs."""

    at: float
    boot_id: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The engine answered the warm-up call."""

    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine could not be started, ended, or was given up."""

    at: float
    fault: Fault


@dataclass(frozen=True, slots=True)
class HealthAsked:
    """`/health` was asked; `alive` when it answered anything at all."""

    at: float
    alive: bool


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The pod is to end."""

    at: float


Event = Started | Answered | Failed | HealthAsked | StopAsked


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start the engine after a delay."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """End the engine: it runs but is dead."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Drain:
    """End the engine once calls that run have finished."""


@dataclass(frozen=True, slots=True)
class End:
    """End the engine now."""


Action = Wait | Start | GiveUp | Drain | End


@dataclass(frozen=True, slots=True)
class Life:
    """Where the engine is. The default is the life of a pod that has just been created."""

    state: PodState = PodState.STARTING
    boot_id: str = ""
    restarts: int = 0
    error: Fault | None = None
    failures: int = 0
    """Failures since the engine was last steady."""
    ready_at: float | None = None
    silent_since: float | None = None


def advance(life: Life, event: Event) -> tuple[Life, Action]:
    """What the event makes of the life, and what is to be done."""
    if life.state is PodState.DRAINING:
        return life, Wait()
    match event:
        case Started(at, boot_id):
            restarts = life.restarts + (1 if life.boot_id else 0)
            return replace(
                life,
                state=PodState.STARTING,
                boot_id=boot_id,
                restarts=restarts,
                ready_at=None,
                silent_since=at,
            ), Wait()
        case Answered(at):
            return replace(life, state=PodState.READY, error=None, ready_at=at), Wait()
        case Failed(at, fault):
            steady = life.ready_at is not None and at - life.ready_at >= STEADY_SECONDS
            failures = 1 if steady else life.failures + 1
            failed = replace(
                life, state=PodState.FAILED, error=fault, failures=failures, ready_at=None
            )
            return failed, Start(_delay(failures))
        case HealthAsked(at, alive):
            return _hear(life, at, alive)
        case StopAsked():
            stopping = replace(life, state=PodState.DRAINING)
            return stopping, Drain() if life.state is PodState.READY else End()
        case _:
            assert_never(event)


def _hear(life: Life, at: float, alive: bool) -> tuple[Life, Action]:
    if alive:
        return replace(life, silent_since=None), Wait()
    since = at if life.silent_since is None else life.silent_since
    silent = replace(life, silent_since=since)
    if at - since < SILENCE_SECONDS:
        return silent, Wait()
    message = f"The engine has not answered for {SILENCE_SECONDS:.0f} seconds."
    return silent, GiveUp(Fault(reason=Reason.ENGINE_FAILED, message=message))


def _delay(failures: int) -> float:
    # The exponent is bounded: a pod may fail for years.
    return min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** min(failures - 1, 10))


@dataclass(frozen=True, slots=True)
class Draining:
    """The wait for running calls: over when idle, or at the deadline."""

    deadline: float
    idle_readings_needed: int
    idle_readings: int = 0

    def read(self, busy: int) -> Draining:
        """Take one reading of the calls at work."""
        return replace(self, idle_readings=self.idle_readings + 1 if busy == 0 else 0)

    def over(self, now: float) -> bool:
        """Whether the engine may end."""
        return self.idle_readings >= self.idle_readings_needed or now >= self.deadline


def begin_drain(now: float, drain_seconds: float, propagation_seconds: float) -> Draining:
    """The wait that starts now, once every router has had time to see the pod go.

    One idle reading can fall between two calls. Without propagation whoever stops the pod vouches
    that no call comes any more, and one is enough.
    """
    return Draining(now + drain_seconds, 1 if propagation_seconds == 0 else 2)
