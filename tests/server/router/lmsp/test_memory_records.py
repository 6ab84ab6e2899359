"""Records of keyed requests in memory, under a clock that the test sets."""

from __future__ import annotations

import pytest

from pumas_server.router.lmsp.memory_records import MemoryRecords
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

ANSWER = StoredAnswer(202, "{}")


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def records(clock: Clock) -> MemoryRecords:
    return MemoryRecords(clock, max_records=3)


async def claimed(records: MemoryRecords, key: str = "k", principal: str = "p") -> Claimed:
    claim = await records.claim(principal, key, "f")
    assert isinstance(claim, Claimed)
    return claim


async def test_one_of_two_comers_has_the_key(records: MemoryRecords) -> None:
    await claimed(records)
    assert await records.claim("p", "k", "f") == InProgress()


async def test_a_stored_answer_is_given_again(records: MemoryRecords) -> None:
    await records.store(await claimed(records), ANSWER)
    for _ in range(2):
        assert await records.claim("p", "k", "f") == Replayed(ANSWER)


async def test_a_key_stands_for_one_request_before_and_after_its_answer(
    records: MemoryRecords,
) -> None:
    claim = await claimed(records)
    assert await records.claim("p", "k", "other") == Reused()
    await records.store(claim, ANSWER)
    assert await records.claim("p", "k", "other") == Reused()


async def test_keys_of_another_principal_are_others(records: MemoryRecords) -> None:
    await records.store(await claimed(records), ANSWER)
    await claimed(records, principal="q")


async def test_a_released_key_is_free_for_anything(records: MemoryRecords) -> None:
    await records.release(await claimed(records))
    assert isinstance(await records.claim("p", "k", "other"), Claimed)


async def test_a_claim_ends_at_its_deadline(records: MemoryRecords, clock: Clock) -> None:
    first = await claimed(records)
    clock.now += CLAIM_SECONDS - 1
    assert await records.claim("p", "k", "f") == InProgress()
    clock.now += 1
    second = await claimed(records)
    # Whoever comes late has no say in what is another's by now.
    await records.store(first, ANSWER)
    await records.release(first)
    assert await records.claim("p", "k", "f") == InProgress()
    await records.store(second, ANSWER)
    assert await records.claim("p", "k", "f") == Replayed(ANSWER)


async def test_an_answer_is_kept_for_a_day(records: MemoryRecords, clock: Clock) -> None:
    claim = await claimed(records)
    clock.now += CLAIM_SECONDS - 1
    await records.store(claim, ANSWER)
    clock.now += KEPT_SECONDS - CLAIM_SECONDS
    assert await records.claim("p", "k", "f") == Replayed(ANSWER)
    clock.now += 1
    await claimed(records)


async def test_a_full_store_takes_no_new_key_and_loses_none(
    records: MemoryRecords, clock: Clock
) -> None:
    for key in "abc":
        await records.store(await claimed(records, key), ANSWER)
        clock.now += 1
    with pytest.raises(RecordsUnavailable, match="3 keys are kept, and at most 3 may be"):
        await records.claim("p", "d", "f")
    assert await records.claim("p", "a", "f") == Replayed(ANSWER)
    # The oldest goes when its day is over, and no other.
    clock.now += KEPT_SECONDS - 3
    await claimed(records, "d")
    assert await records.claim("p", "b", "f") == Replayed(ANSWER)
