"""What there is to read is counted as a decoder would count it, and in no time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.json_weight import check_values, count_values, is_light

_texts = st.text('a,[]{}"\\\né😀', max_size=6)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=20,
)


def values(value: Any) -> int:
    members = list(value.values()) if isinstance(value, dict) else value
    return 1 + sum(map(values, members)) if isinstance(members, list) else 1


@given(value=_json, indent=st.sampled_from([None, 1]), ascii_=st.booleans())
def test_values_are_counted(value: Any, indent: int | None, ascii_: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_).encode()
    assert count_values(raw) == values(value)
    count = values(value)
    check_values(raw, count)
    # A text that is shorter than its bound holds fewer values, and is not looked at.
    if count > 1:
        with pytest.raises(ContractError) as caught:
            check_values(raw, count - 1)
        assert caught.value.code is Code.REQUEST_LIMIT
        assert caught.value.message == (
            f"the body holds {count} JSON values; at most {count - 1} are allowed"
        )


@given(raw=st.binary(max_size=60) | st.text('"\\[]{},a ', max_size=60).map(str.encode))
def test_nonsense_is_counted_somehow(raw: bytes) -> None:
    assert count_values(raw) >= 0


@pytest.mark.parametrize("unit", [b'\\"', b'"', b"\\", b'"\\', b"[", b"[]"])
def test_counting_takes_time_in_proportion(unit: bytes) -> None:
    """A quotation mark that nothing ends is not looked for again and again."""
    assert count_values(b'"' + unit * 2_000_000) >= 0


@pytest.mark.parametrize(
    ("raw", "light"),
    [
        (b"", True),
        (b"a" * 999, True),
        (b"a" * 1000, False),
        (b"[" + b"1," * 2, True),
        (b"[" + b"1," * 4, False),
        (b"[" * 3, True),
        (b"[" * 4, False),
        (b"{" * 4, False),
    ],
)
def test_what_is_light(raw: bytes, light: bool) -> None:
    assert is_light(raw, 1000) is light
