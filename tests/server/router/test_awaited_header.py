"""How long a header is that comes in segments."""

from __future__ import annotations

from pumas_server.router.awaited_header import AwaitedHeader
from pumas_server.router.header_bounds import MAX_HEADER_BYTES as MOST

SHORT = (b"/", [(b"host", b"x")])
LONG = (b"/", [(b"host", b"x" * MOST)])


def header(*segments: int) -> AwaitedHeader:
    """One that did not end in these."""
    awaited = AwaitedHeader()
    awaited.expect()
    for count in segments:
        awaited.came(count)
        awaited.lasts()
    return awaited


def test_one_that_does_not_end_may_have_so_many_bytes_in_all() -> None:
    awaited = header(MOST - 10)
    awaited.came(10)
    assert awaited.lasts()
    awaited.came(1)
    assert not awaited.lasts()


def test_one_that_ends_far_below_the_bound_is_not_measured() -> None:
    awaited = header(10)
    awaited.came(MOST - 10)
    assert awaited.fits(*LONG)


def test_one_that_ends_near_the_bound_is_measured_for_a_body_may_be_behind_it() -> None:
    awaited = header(10)
    awaited.came(MOST)
    assert awaited.fits(*SHORT)
    assert not awaited.fits(*LONG)


def test_the_next_one_begins_at_nothing() -> None:
    awaited = header(MOST)
    awaited.began = True
    awaited.expect()
    assert not awaited.began
    awaited.came(MOST)
    assert awaited.lasts()
