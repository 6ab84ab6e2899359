"""If-None-Match, as a table: weak comparison, commas inside the quotes, malformed values."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router.lmsp.validators import etag_of, none_match

ETAG = 'W/"abc"'


@pytest.mark.parametrize(
    "lines",
    [
        [b'W/"abc"'],
        [b'"abc"'],
        [b"*"],
        [b" * "],
        [b'"x", "abc"'],
        [b'"x"', b'W/"abc"'],
        [b'"x,y" ,\t"abc"'],
        [b',, "abc" ,'],
        [b'"x","abc"'],
        [b'"\xe9", "abc"'],
    ],
)
def test_a_tag_that_the_caller_has(lines: list[bytes]) -> None:
    assert not none_match(lines, ETAG)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b""],
        [b","],
        [b'"ABC"'],
        [b'"abcd"'],
        [b'"x,abc,y"'],
        [b'"x, ", "abc'],
        [b'w/"abc"'],
        [b'W/ "abc"'],
        [b"abc"],
        [b'"abc" "x"'],
        [b'"abc", x'],
        [b'"abc", *'],
        [b'*, "abc"'],
        [b"*", b"*"],
        [b'"a bc", "abc"'],
        [b'"abc"', b'"'],
    ],
)
def test_a_tag_that_the_caller_has_not_or_did_not_write_well(lines: list[bytes]) -> None:
    assert none_match(lines, ETAG)


_OPAQUE = st.binary().map(lambda raw: bytes(b for b in raw if b == 0x21 or 0x23 <= b != 0x7F))


@given(
    st.lists(st.tuples(st.sampled_from([b"", b"W/"]), _OPAQUE), max_size=5),
    st.sampled_from([b",", b", ", b" ,\t", b",,"]),
    st.booleans(),
)
def test_every_list_of_tags_is_read(
    tags: list[tuple[bytes, bytes]], comma: bytes, ours: bool
) -> None:
    named = [*tags, (b"W/", b"abc")] if ours else tags
    line = comma.join(weak + b'"' + opaque + b'"' for weak, opaque in named)
    assert none_match([line], ETAG) is not any(opaque == b"abc" for _, opaque in named)


@pytest.mark.parametrize("piece", [b" ", b",", b'"', b'W/"', b"\t,", b'"a",'])
def test_a_long_value_is_read_in_no_time(piece: bytes) -> None:
    began = time.perf_counter()
    assert none_match([piece * 60_000 + b"x"], ETAG)
    assert time.perf_counter() - began < 2


def test_a_tag_follows_from_the_bytes() -> None:
    assert etag_of(b"a") == etag_of(b"a") != etag_of(b"b")
    assert not none_match([etag_of(b"a").encode()], etag_of(b"a"))
