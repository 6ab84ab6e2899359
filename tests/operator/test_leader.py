"""Of several operators one writes: schedules of clocks, pauses and an API server that is away."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_operator import leader as leading
from pumas_operator.cluster import Refused
from pumas_operator.kinds import LEASE
from pumas_operator.leader import LEASE_SECONDS, VALID_SECONDS, Leader, LeadershipLost
from pumas_operator.requests import Request
from support.eventually import eventually
from support.fake_cluster import FakeCluster

HOME, NAME = "pumas-system", "pumas-operator"


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def candidate(cluster: FakeCluster, clock: Clock, identity: str) -> Leader:
    return Leader(cluster, HOME, NAME, identity, clock)


def holder(cluster: FakeCluster) -> str:
    found: str = cluster.get(LEASE, HOME, NAME)["spec"]["holderIdentity"]
    return found


async def test_the_first_one_leads_and_the_second_waits() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = (candidate(cluster, clock, name) for name in ("a", "b"))
    assert await first.attempt()
    assert not await second.attempt()
    assert (first.valid(), second.valid(), holder(cluster)) == (True, False, "a")


async def test_the_lease_is_labelled_as_ours_whoever_made_it() -> None:
    """Also when an earlier release made it, and beside the labels of others, and when renewed."""
    cluster, clock = FakeCluster(), Clock()
    leader = candidate(cluster, clock, "a")

    def labels() -> dict[str, str]:
        found: dict[str, str] = cluster.get(LEASE, HOME, NAME)["metadata"]["labels"]
        return found

    await leader.attempt()
    assert labels() == {"app.kubernetes.io/part-of": "pumas-serving"}
    bare = cluster.get(LEASE, HOME, NAME)
    bare["metadata"]["labels"] = {"team": "platform"}
    cluster.put(LEASE, bare)
    await leader.attempt()
    assert labels() == {"team": "platform", "app.kubernetes.io/part-of": "pumas-serving"}
    await leader.release()
    assert labels() == {"team": "platform", "app.kubernetes.io/part-of": "pumas-serving"}


async def test_one_that_is_silent_is_succeeded_after_the_whole_lease() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = (candidate(cluster, clock, name) for name in ("a", "b"))
    await first.attempt()
    assert not await second.attempt()
    clock.now += LEASE_SECONDS - 1
    assert not await second.attempt()
    clock.now += 1
    assert await second.attempt()
    assert (first.valid(), second.valid()) == (False, True)
    assert cluster.get(LEASE, HOME, NAME)["spec"]["leaseTransitions"] == 2
    assert not await first.attempt()


async def test_a_lease_that_is_given_up_is_had_at_once() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = (candidate(cluster, clock, name) for name in ("a", "b"))
    await first.attempt()
    await first.release()
    assert await second.attempt()
    assert not first.valid()


async def test_one_that_lost_the_lease_does_not_give_it_up() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = (candidate(cluster, clock, name) for name in ("a", "b"))
    await second.attempt()
    clock.now += LEASE_SECONDS
    await first.attempt()
    await second.release()
    assert holder(cluster) == "b"


async def test_an_api_server_that_is_away_stops_the_writing_and_not_the_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leading, "RENEW_SECONDS", 0.0)
    monkeypatch.setattr(leading, "LOOK_SECONDS", 0.0)
    cluster, clock = FakeCluster(), Clock()
    first = candidate(cluster, clock, "a")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    told: list[bool] = []
    first.unreachable = lambda: told.append(True)
    cluster.away = True
    clock.now += VALID_SECONDS
    before = len(cluster.requests)
    await eventually(lambda: len(cluster.requests) >= before + 3, "attempts")
    assert told, "what happens meanwhile goes unheard"
    assert not first.valid()
    assert not holding.done()
    cluster.away = False
    await eventually(first.valid, "leading again")
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding


async def test_one_whose_lease_another_has_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "LOOK_SECONDS", 0.0)
    cluster, clock = FakeCluster(), Clock()
    first, second = (candidate(cluster, clock, name) for name in ("a", "b"))
    await first.attempt()
    await second.attempt()
    clock.now += LEASE_SECONDS
    assert await second.attempt()
    with pytest.raises(LeadershipLost):
        await first.hold()


async def test_who_is_slower_by_a_moment_does_not_lead() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = (candidate(cluster, clock, name) for name in ("a", "b"))

    async def between() -> None:
        await second.attempt()

    def conflict(request: Request) -> Refused | None:
        return Refused(409, "AlreadyExists", "there is one") if request.method == "POST" else None

    cluster.refuse = conflict
    assert not await first.attempt()
    cluster.refuse = lambda request: None
    await between()
    assert (first.valid(), second.valid()) == (False, True)


STEP = st.tuples(
    st.sampled_from([0, 1]), st.sampled_from([0.0, 1.0, 5.0, 9.0, 31.0]), st.booleans()
)


@given(st.lists(STEP, max_size=60))
@settings(deadline=None)
def test_never_two_at_once(schedule: list[tuple[int, float, bool]]) -> None:
    """Who tries when, after what pause, and whether the API server is there; clocks differ."""

    async def run() -> None:
        cluster, clock = FakeCluster(), Clock()
        ahead = Clock()
        two = (candidate(cluster, clock, "a"), candidate(cluster, ahead, "b"))
        for who, pause, away in schedule:
            clock.now += pause
            ahead.now = clock.now + 500
            cluster.away = away
            await two[who].attempt()
            assert not (two[0].valid() and two[1].valid())

    asyncio.run(run())
