"""Request records over an API server: claims, answers and their deadlines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pumas_server.router.lmsp.judgement import CLOCK_MARGIN_SECONDS
from pumas_server.router.lmsp.lease_records import LeaseRecords
from pumas_server.router.lmsp.request_records import (
    CLAIM_SECONDS,
    KEPT_SECONDS,
    Claimed,
    InProgress,
    RecordsUnavailable,
    Replayed,
    Reused,
    StoredAnswer,
)
from support.api_server import ScriptedApiServer
from support.request_leases import (
    ANSWER,
    DAY,
    DEADLINE,
    LEASE,
    LEASES,
    OTHER,
    SAME,
    claimed,
    found,
    keeping,
    sent,
)
from support.told_clock import ToldClock

# One key


async def test_a_key_is_claimed_and_answered_once(
    records: LeaseRecords, server: ScriptedApiServer
) -> None:
    claim = await claimed(records)
    assert await records.claim(*SAME) == InProgress()
    assert await records.claim(*OTHER) == Reused()
    await records.store(claim, ANSWER)
    assert await records.claim(*SAME) == Replayed(ANSWER)
    assert await records.claim(*OTHER) == Reused()
    assert sent(server) == ["POST", *["POST", "GET"] * 2, "PATCH", *["POST", "GET"] * 2]
    assert {asked.query.get("fieldManager") for asked in server.asked} == {"pumas-router", None}


async def test_keys_of_others_are_other_keys(records: LeaseRecords) -> None:
    claims = [await records.claim(*pair, "same") for pair in (("me", "a"), ("you", "a"))]
    claims.append(await records.claim("me", "b", "same"))
    assert all(isinstance(claim, Claimed) for claim in claims)
    assert len(set(claims)) == 3


async def test_a_key_that_is_given_back_is_free(
    records: LeaseRecords, server: ScriptedApiServer
) -> None:
    await records.release(await claimed(records))
    assert found(server) is None
    (asked,) = [each for each in server.asked if each.method == "DELETE"]
    assert asked.body["preconditions"] == {"uid": "uid-1", "resourceVersion": "101"}
    assert isinstance(await records.claim(*OTHER), Claimed)


async def test_another_router_sees_the_same(
    records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    async with keeping(server, clock) as elsewhere:
        claim = await claimed(records)
        assert await elsewhere.claim(*SAME) == InProgress()
        await records.store(claim, ANSWER)
        assert await elsewhere.claim(*SAME) == Replayed(ANSWER)


# Deadlines


@pytest.mark.parametrize("request_", [SAME, OTHER], ids=["same", "other"])
async def test_a_claim_that_is_left_ends_at_its_deadline(
    request_: tuple[str, str, str], records: LeaseRecords, clock: ToldClock
) -> None:
    late = await claimed(records)
    clock.pass_by(CLAIM_SECONDS + CLOCK_MARGIN_SECONDS)
    assert not isinstance(await records.claim(*request_), Claimed)
    clock.pass_by(1)
    taken = await records.claim(*request_)
    assert isinstance(taken, Claimed)
    # Whoever was late changes nothing that is another's now.
    with pytest.raises(RecordsUnavailable, match="deadline"):
        await records.store(late, StoredAnswer(500, "late"))
    await records.release(late)
    assert await records.claim(*request_) == InProgress()
    await records.store(taken, ANSWER)
    assert await records.claim(*request_) == Replayed(ANSWER)


async def test_who_is_late_and_not_succeeded_can_still_answer(
    records: LeaseRecords, clock: ToldClock
) -> None:
    claim = await claimed(records)
    clock.pass_by(DEADLINE)
    await records.store(claim, ANSWER)
    assert await records.claim(*SAME) == Replayed(ANSWER)


async def test_an_answer_is_given_again_for_a_day(records: LeaseRecords, clock: ToldClock) -> None:
    await records.store(await claimed(records), ANSWER)
    clock.pass_by(KEPT_SECONDS)
    assert await records.claim(*SAME) == Replayed(ANSWER)
    clock.pass_by(DAY - KEPT_SECONDS)
    await claimed(records)
    assert await records.claim(*SAME) == InProgress(), "the old answer went with the old record"


@pytest.mark.parametrize("skew", [-CLOCK_MARGIN_SECONDS, CLOCK_MARGIN_SECONDS])
async def test_a_clock_that_differs_takes_no_claim_away(
    skew: float, records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    differing = ToldClock()
    async with keeping(server, differing) as elsewhere:
        await claimed(records)
        for seconds in (0, CLAIM_SECONDS):
            differing.now = clock.now + timedelta(seconds=seconds + skew)
            assert await elsewhere.claim(*SAME) == InProgress()


async def test_a_clock_that_was_a_year_ahead_pins_nothing(
    records: LeaseRecords, clock: ToldClock
) -> None:
    clock.pass_by(366 * 86_400)
    await claimed(records)
    clock.pass_by(-366 * 86_400)
    await claimed(records)


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": "somebody"}])
async def test_a_record_that_nobody_can_read_is_taken_over(
    spec: dict[str, Any], records: LeaseRecords, server: ScriptedApiServer
) -> None:
    server.put(
        LEASES,
        {
            "metadata": {"name": LEASE.rpartition("/")[2], "uid": "u", "creationTimestamp": ""},
            **spec,
        },
    )
    claim = await claimed(records)
    await records.store(claim, ANSWER)
    assert await records.claim(*SAME) == Replayed(ANSWER)
