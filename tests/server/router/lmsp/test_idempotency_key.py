"""Idempotency-Key: its two forms, its bounds, and what it stands for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router.lmsp.idempotency_key import fingerprint, read_key
from pumas_server.router.lmsp.problems import ProblemCode, ProblemError


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'"k1"', "k1"),
        (b"k1", "k1"),
        (b" k1\t", "k1"),
        (b"8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        (rb'"a\"b\\c"', 'a"b\\c'),
        (rb"a\b", r"a\b"),
        (b"a,b;c=d", "a,b;c=d"),
        (b"x" * 255, "x" * 255),
        (b'"' + b"x" * 255 + b'"', "x" * 255),
    ],
)
def test_keys(line: bytes, key: str) -> None:
    assert read_key([line]) == key


def test_no_header_is_no_key() -> None:
    assert read_key([]) is None


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([b""], "is empty"),
        ([b'""'], "is empty"),
        ([b"x" * 256], "has 256 characters; at most 255"),
        ([b'"' + b"x" * 256 + b'"'], "has 256 characters; at most 255"),
        ([b"a b"], "visible ASCII"),
        ([b'"a b"'], "visible ASCII"),
        ([b"\xc3\xa9"], "visible ASCII"),
        ([b'"a\x7f"'], "visible ASCII"),
        ([b'"a'], "double quotes"),
        ([b'a"'], "double quotes"),
        ([b'"a";b=c'], "double quotes"),
        ([b'"a", "b"'], "double quotes"),
        ([rb'"a\b"'], "double quotes"),
        ([b'"a"', b'"a"'], "2 times"),
    ],
)
def test_keys_that_are_refused(lines: list[bytes], told: str) -> None:
    with pytest.raises(ProblemError) as refused:
        read_key(lines)
    assert refused.value.code is ProblemCode.INVALID_REQUEST
    assert told in refused.value.detail
    assert refused.value.param == "Idempotency-Key"


_VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=255)


@given(_VISIBLE)
def test_every_key_can_be_quoted(key: str) -> None:
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    assert read_key([f'"{escaped}"'.encode()]) == key
    if '"' not in key:
        assert read_key([key.encode()]) == key


def test_a_fingerprint_tells_every_part_from_others() -> None:
    parts = itertools.product(("POST", "PUT"), ("load", "unload"), ("a", "a/load"), ({}, {"x": 1}))
    found = [fingerprint(*each) for each in parts]
    assert len(set(found)) == 16
    assert fingerprint("POST", "load", "a", {"x": 1, "y": 2}) == fingerprint(
        "POST", "load", "a", {"y": 2, "x": 1}
    )
