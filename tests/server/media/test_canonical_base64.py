"""Agrees with the slow way of it, works in slices, and says where it stumbled."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.media.canonical_base64 import decode, decoded_size
from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import SLICE, Stopped
from support.reference_base64 import decoded

NEARLY = st.text("Az09+/=-_ \nB", min_size=1, max_size=24)


def never() -> None:
    """Nobody stops it."""


@given(st.binary(min_size=1, max_size=64))
def test_decodes_what_an_encoder_writes(data: bytes) -> None:
    text = b64encode(data).decode()
    assert decoded_size(text) == len(data)
    assert decode(text, never) == data


@given(NEARLY)
def test_takes_what_the_slow_way_takes_and_nothing_else(text: str) -> None:
    try:
        taken = bytes(decode(text, never))
    except Fault:
        taken = None
    assert taken == decoded(text)


@pytest.mark.parametrize("size", [SLICE // 4 * 3 + more for more in range(-3, 4)])
def test_slices_fit_together(size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    text = b64encode(data[:size]).decode()
    assert decode(text, never) == data[:size]


def test_asks_before_each_slice_whether_to_stop() -> None:
    asked = 0

    def stop_at_the_third() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise Stopped

    with pytest.raises(Stopped):
        decode("AAAA" * SLICE, stop_at_the_third)


def test_size_is_known_from_the_ends_alone() -> None:
    assert decoded_size("????????") == 6
    assert decoded_size("???=") == 2
    assert decoded_size("??==") == 1


@pytest.mark.parametrize(
    ("text", "rule", "words"),
    [
        ("DATA:image/png;base64,AAAA", Rule.BASE64_NO_URL, "is a data: URL"),
        ("AAAAA", Rule.BASE64_LENGTH, "5 characters"),
        ("A" * SLICE + "AA-A", Rule.BASE64_ALPHABET, f"character {SLICE + 3} is not"),
        ("====", Rule.BASE64_PADDING, "padding stands before its end"),
        ("AB==", Rule.BASE64_PAD_BITS, "pad bits are not zero"),
    ],
)
def test_names_the_fault(text: str, rule: Rule, words: str) -> None:
    with pytest.raises(Fault) as caught:
        decode(text, never)
    assert caught.value.rule is rule
    assert words in caught.value.words
