"""Other programs' words in a status."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_operator.sentence import LIMIT, build_sentence, last_line


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "fallback"),
        (" \n\t", "fallback"),
        ("a  b\nc\r\n\td", "a b c d"),
        ("a\x00b\x1b[1mc\u2028d", "a b [1mc d"),
        ("dial tcp 10.1.2.3:443: refused", "dial tcp [redacted]: refused"),
        ("dial tcp [fe80::1]:443: refused", "dial tcp [redacted]: refused"),
        ('Get "https://r.example/v2/": EOF', 'Get "[redacted]": EOF'),
        ("image registry.example:5000/p:1.2.3 not found",) * 2,
        ("0/3 nodes are available: 1 Insufficient cpu.",) * 2,
        ("at 12:30:45, version 1.34.4",) * 2,
        ("check failed: /srv/a is no directory", "check failed: [redacted] is no directory"),
        ('open "/var/lib/x": denied', 'open "[redacted]": denied'),
        ("1 Insufficient nvidia.com/gpu, a/b and 1 / 2",) * 2,
    ],
)
def test_sentences(text: str, sentence: str) -> None:
    assert build_sentence(text, "fallback") == sentence


@given(st.text())
def test_whatever_is_said_is_one_line_of_bounded_length(text: str) -> None:
    for sentence in (build_sentence(text * 50), last_line(text * 50)):
        assert len(sentence) <= LIMIT
        assert sentence.isprintable() or not sentence


def test_what_is_cut_shows_it() -> None:
    assert build_sentence("a" * (LIMIT + 1)) == "a" * (LIMIT - 1) + "…"
    assert build_sentence("a" * LIMIT) == "a" * LIMIT


def test_the_last_line_is_the_last_that_says_anything() -> None:
    assert last_line("first\n second \n\n") == "second"
    assert last_line("\n") == ""
