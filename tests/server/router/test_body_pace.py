"""When a body is too late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router.body_pace import BodyPace


def pace() -> BodyPace:
    return BodyPace(silence=30, least_rate=1000, began=100, last=100)


def test_nothing_comes() -> None:
    assert pace().late_at() == 130


def test_after_a_silence() -> None:
    body = pace()
    body.came(1_000_000, 120)
    assert body.late_at() == 150
    body.came(1, 149)
    assert body.late_at() == 179


def test_drops_do_not_help() -> None:
    body = pace()
    for second in range(101, 130):
        body.came(1, second)
    assert body.late_at() == pytest.approx(130.029)


def test_what_we_did_not_read_is_excused() -> None:
    body = pace()
    body.excuse(500)
    assert body.late_at() == 530


@given(st.lists(st.tuples(st.floats(0.01, 29), st.integers(0, 100_000)), max_size=50))
def test_a_body_at_the_rate_is_never_late_and_none_is_before_the_first_silence(
    pieces: list[tuple[float, int]],
) -> None:
    body, now = pace(), 100.0
    for pause, extra in pieces:
        now += pause
        assert now < body.late_at()
        body.came(int(pause * 1000) + 1 + extra, now)
        assert body.late_at() >= 130
