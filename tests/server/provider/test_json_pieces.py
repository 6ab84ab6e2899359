"""JSON put together in pieces: the same value as the standard encoder's, base64 untouched."""

from __future__ import annotations

import json
from base64 import b64encode
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.provider.json_pieces import Plain, encode

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('aé"\\\n☃'), inner),
    max_leaves=20,
)


@given(value=_values)
def test_it_is_what_the_standard_encoder_writes(value: object) -> None:
    assert encode(value) == json.dumps(value, ensure_ascii=False).encode()


@given(raw=st.lists(st.binary(max_size=64), max_size=4), text=st.text('aé"\\\n☃'))
def test_plain_pieces_are_one_string(raw: list[bytes], text: str) -> None:
    parts = ("data:image/png;base64,", *(b64encode(piece).decode() for piece in raw))
    value = {"before": text, "held": [Plain(parts), {"again": Plain(parts[:1])}], "after": text}
    assert json.loads(encode(value)) == {
        "before": text,
        "held": ["".join(parts), {"again": parts[0]}],
        "after": text,
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, b"{}"),
        ([], b"[]"),
        ((), b"[]"),
        (("a", 1), b'["a", 1]'),
        (MappingProxyType({"a": {"b": []}}), b'{"a": {"b": []}}'),
        (Plain(()), b'""'),
        ("é", '"é"'.encode()),
    ],
)
def test_each_kind(value: object, expected: bytes) -> None:
    assert encode(value) == expected


def test_what_is_not_plain_is_not_let_through_as_such() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode(Plain(("é",)))
