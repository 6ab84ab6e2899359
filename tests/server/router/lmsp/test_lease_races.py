"""Routers that race for one key, and routers that die on the way: every order of their requests.

A router's life with a key: claim it, do it, store the answer, or give the key back. The API server
is in memory, and lets one request at a time arrive or be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.router.lmsp.lease_records import LeaseRecords
from pumas_server.router.lmsp.request_records import (
    Claim,
    Claimed,
    InProgress,
    RecordsUnavailable,
    Replayed,
    StoredAnswer,
)
from support.request_leases import ANSWER, DEADLINE, HOME, OTHER, SAME
from support.stepwise_api import StepwiseApi
from support.told_clock import ToldClock

T = TypeVar("T")


@dataclass
class Race:
    """Some routers, and what has become of each."""

    api: StepwiseApi = field(default_factory=StepwiseApi)
    clock: ToldClock = field(default_factory=ToldClock)
    claims: list[Claim] = field(default_factory=list)
    unavailable: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def records(self) -> LeaseRecords:
        return LeaseRecords(self.api, HOME, self.clock)

    def start(self, *, stores: bool = False, releases: bool = False) -> None:
        """Another router begins its life with the key."""
        self.tasks.append(asyncio.create_task(self._live(stores, releases)))

    async def _live(self, stores: bool, releases: bool) -> None:
        records = self.records()
        try:
            claim = await records.claim(*SAME)
            self.claims.append(claim)
            if isinstance(claim, Claimed) and stores:
                await records.store(claim, ANSWER)
            if isinstance(claim, Claimed) and releases:
                await records.release(claim)
        except RecordsUnavailable:
            self.unavailable += 1

    async def until_over(self) -> None:
        """Let all go on, the oldest request first."""
        await self.api.settle()
        while self.api.waiting:
            self.api.waiting[0].go()
            await self.api.settle()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def ask(self, request: tuple[str, str, str] = SAME) -> Claim:
        """What the key is now, for a router that nothing hinders."""
        self.api.at_once = True
        try:
            return await self.records().claim(*request)
        finally:
            self.api.at_once = False

    def winners(self) -> int:
        return sum(isinstance(claim, Claimed) for claim in self.claims)


def run(main: Coroutine[object, object, T]) -> T:
    return asyncio.run(main)


ORDER = st.lists(st.integers(0, 5), max_size=40)


@given(ORDER, st.integers(2, 4), st.booleans(), st.booleans())
@settings(deadline=None)
def test_of_all_who_race_one_wins(order: list[int], racers: int, stores: bool, old: bool) -> None:
    """For a key that is free, and for one whose claim is past its deadline."""

    async def go() -> None:
        race = Race()
        if old:
            await race.ask()
            race.clock.pass_by(DEADLINE)
        for _ in range(racers):
            race.start(stores=stores)
        for pick in order:
            await race.api.settle()
            if race.api.waiting:
                race.api.waiting[pick % len(race.api.waiting)].go()
        await race.until_over()
        assert race.winners() == 1
        assert len(race.claims) == racers
        assert await race.ask() == (Replayed(ANSWER) if stores else InProgress())

    run(go())


FATES = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["go", "go", "go", "lose", "die"])), max_size=40
)


@given(FATES, st.integers(1, 4), st.booleans())
@settings(deadline=None, max_examples=300)
def test_whatever_is_lost_and_whoever_dies_never_two_have_it_and_nothing_pins_it(
    fates: list[tuple[int, str]], racers: int, old: bool
) -> None:
    async def go() -> None:
        race = Race()
        if old:
            await race.ask()
            race.clock.pass_by(DEADLINE)
        for _ in range(racers):
            race.start(stores=True)
        for pick, fate in fates:
            await race.api.settle()
            if race.api.waiting:
                step = race.api.waiting[pick % len(race.api.waiting)]
                {"go": step.go, "lose": step.lose, "die": step.die}[fate]()
        await race.until_over()
        assert race.winners() <= 1
        race.clock.pass_by(DEADLINE)
        # Done and told again, or free: whatever happened, and for a request of any fingerprint.
        claim = await race.ask()
        assert claim == Replayed(ANSWER) or isinstance(claim, Claimed)

    run(go())


#: The requests of a life: which of them it is, and whether it is carried out before the death.
STEPS = [
    pytest.param(number, done, id=f"{name}, {'done' if done else 'not done'}")
    for number, name in enumerate(["claim", "store"])
    for done in (False, True)
]


@pytest.mark.parametrize(("number", "done"), STEPS)
@pytest.mark.parametrize("request_", [SAME, OTHER], ids=["same", "other"])
async def test_a_router_that_dies_at_any_step_leaves_a_key_that_ends(
    number: int, done: bool, request_: tuple[str, str, str]
) -> None:
    race = Race()
    race.start(stores=True)
    for _ in range(2 * number + done):
        await race.api.settle()
        race.api.waiting[0].go()
    await race.api.settle()
    (step,) = race.api.waiting
    assert (step.method, step.done) == (["POST", "PATCH"][number], done)
    step.die()
    await race.until_over()
    claim = await race.ask()
    expected: type = [[Claimed, InProgress], [InProgress, Replayed]][number][done]
    assert isinstance(claim, expected)
    race.clock.pass_by(DEADLINE)
    stored = (number, done) == (1, True)
    freed = await race.ask(request_)
    assert isinstance(freed, Claimed) is not stored


@pytest.mark.parametrize("done", [False, True])
async def test_a_router_that_dies_giving_back_leaves_a_key_that_ends(done: bool) -> None:
    race = Race()
    race.start(releases=True)
    for _ in range(2 + done):
        await race.api.settle()
        race.api.waiting[0].go()
    await race.api.settle()
    (step,) = race.api.waiting
    assert (step.method, step.done) == ("DELETE", done)
    step.die()
    await race.until_over()
    assert isinstance(await race.ask(), Claimed if done else InProgress)
    race.clock.pass_by(DEADLINE)
    assert isinstance(await race.ask(), Claimed)


async def test_a_router_that_dies_between_leaves_a_key_that_ends() -> None:
    """In the midst of what it does."""
    race = Race()
    race.start()
    await race.until_over()
    assert race.winners() == 1
    assert await race.ask() == InProgress()
    race.clock.pass_by(DEADLINE)
    assert isinstance(await race.ask(OTHER), Claimed)


@given(ORDER)
@settings(deadline=None)
def test_a_late_answer_and_a_takeover_leave_one_of_the_two(order: list[int]) -> None:
    """A router stores when its claim is past its deadline, while another takes the key over."""

    async def go() -> None:
        race = Race()
        late = await race.ask()
        assert isinstance(late, Claimed)
        race.clock.pass_by(DEADLINE)
        kept = race.records()
        storing = asyncio.create_task(kept.store(late, StoredAnswer(200, "late")))
        race.start()
        for pick in order:
            await race.api.settle()
            if race.api.waiting:
                race.api.waiting[pick % len(race.api.waiting)].go()
        await race.until_over()
        (refused,) = await asyncio.gather(storing, return_exceptions=True)
        if race.winners():
            assert isinstance(refused, RecordsUnavailable)
            assert await race.ask() == InProgress()
        else:
            assert refused is None
            assert await race.ask() == race.claims[0] == Replayed(StoredAnswer(200, "late"))

    run(go())


@given(ORDER)
@settings(deadline=None)
def test_collecting_takes_no_key_from_whoever_takes_it_over(order: list[int]) -> None:
    async def go() -> None:
        race = Race()
        await race.ask()
        race.clock.pass_by(DEADLINE)
        collecting = [asyncio.create_task(race.records().collect()) for _ in range(2)]
        race.start()
        for pick in order:
            await race.api.settle()
            if race.api.waiting:
                race.api.waiting[pick % len(race.api.waiting)].go()
        await race.until_over()
        await asyncio.gather(*collecting)
        assert race.winners() == 1
        assert await race.ask() == InProgress()

    run(go())
