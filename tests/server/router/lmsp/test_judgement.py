"""What a record means for a request with its key, as a table: by fingerprint, answer and age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router.lmsp.judgement import CLOCK_MARGIN_SECONDS, expired, judge
from pumas_server.router.lmsp.request_lease import RequestLease
from pumas_server.router.lmsp.request_records import (
    CLAIM_SECONDS,
    KEPT_SECONDS,
    InProgress,
    Replayed,
    Reused,
    StoredAnswer,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ANSWER = StoredAnswer(202, "{}")
CLAIM_END = CLAIM_SECONDS + CLOCK_MARGIN_SECONDS
KEPT_END = KEPT_SECONDS + CLOCK_MARGIN_SECONDS


def record(age: float, *, stored: bool) -> RequestLease:
    return RequestLease(
        holder="token",
        fingerprint="same",
        renewed=NOW - timedelta(seconds=age),
        seconds=KEPT_SECONDS if stored else CLAIM_SECONDS,
        answer=ANSWER if stored else None,
    )


@pytest.mark.parametrize(
    ("stored", "age", "fingerprint", "verdict"),
    [
        (False, 0, "same", InProgress()),
        (False, 0, "other", Reused()),
        (False, CLAIM_SECONDS, "same", InProgress()),
        (False, CLAIM_END, "same", InProgress()),
        (False, CLAIM_END + 0.001, "same", None),
        (False, CLAIM_END, "other", Reused()),
        (False, CLAIM_END + 0.001, "other", None),
        (True, 0, "same", Replayed(ANSWER)),
        (True, 0, "other", Reused()),
        (True, CLAIM_END + 1, "same", Replayed(ANSWER)),
        (True, KEPT_SECONDS, "same", Replayed(ANSWER)),
        (True, KEPT_END, "same", Replayed(ANSWER)),
        (True, KEPT_END + 0.001, "same", None),
        (True, KEPT_END, "other", Reused()),
        (True, KEPT_END + 0.001, "other", None),
        # Written by a clock that is ahead: a little, and by a year.
        (False, -CLOCK_MARGIN_SECONDS, "same", InProgress()),
        (False, -CLOCK_MARGIN_SECONDS, "other", Reused()),
        (True, -CLOCK_MARGIN_SECONDS, "same", Replayed(ANSWER)),
        (False, -366 * 86_400, "same", None),
        (True, -366 * 86_400, "same", None),
        (True, -366 * 86_400, "other", None),
    ],
)
def test_the_verdict(stored: bool, age: float, fingerprint: str, verdict: object) -> None:
    assert judge(record(age, stored=stored), fingerprint, NOW) == verdict
    assert expired(record(age, stored=stored), NOW) is (verdict is None)


def test_a_record_that_cannot_be_read_is_nobodys() -> None:
    assert judge(None, "same", NOW) is None
    assert expired(None, NOW)


@given(
    st.floats(-CLOCK_MARGIN_SECONDS, CLOCK_MARGIN_SECONDS),
    st.floats(0, 200),
)
def test_clocks_that_differ_take_no_claim_away_and_pin_none(skew: float, age: float) -> None:
    """Nobody's before its deadline by no clock, and by every clock soon after."""
    judged = judge(record(age + skew, stored=False), "same", NOW)
    if age <= CLAIM_SECONDS:
        assert judged == InProgress()
    if age > CLAIM_SECONDS + 2 * CLOCK_MARGIN_SECONDS + 0.001:
        assert judged is None
