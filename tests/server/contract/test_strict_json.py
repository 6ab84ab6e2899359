"""JSON is taken strictly, in time linear in the body, and a valid `request_id` is rescued."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.strict_json import Unreadable, is_request_id, quoted, read_document


def nested(depth: int) -> bytes:
    """An object of that many levels, itself included, with a valid id in the first."""
    inner = b"[" * (depth - 1) + b"]" * (depth - 1)
    return b'{"request_id":"r1","x":' + inner + b"}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON (line 1, column 2: "),
        (b'{"request_id":"r1"', "not JSON"),
        (b'{"request_id":"r1"} x', "not JSON (line 1, column 21: Extra data)"),
        (b'{"request_id":"r1",}', "not JSON"),
        (b"{'request_id':'r1'}", "not JSON"),
        (b'{"request_id":"r1","x":01}', "not JSON"),
        (b'{"request_id":"r1","x":"a\tb"}', "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"r1"', "not a JSON object"),
        (b"1", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'\xef\xbb\xbf{"request_id":"r1"}', "begins with a byte order mark"),
        (b'{"request_id":"r1","x":"\xff"}', "not UTF-8 (byte 24)"),
        (b'{"request_id":"r1","x":"\xed\xa0\x80"}', "not UTF-8"),
        (b'{"request_id":"r1","x":"\xc0\x80"}', "not UTF-8"),
        ('{"request_id":"r1"}'.encode("utf-16"), "not UTF-8"),
        ('{"request_id":"r1"}'.encode("utf-16-le"), "not JSON"),
        ('{"request_id":"r1"}'.encode("utf-32-be"), "not JSON"),
        (b'{"request_id":"r1","x":NaN}', "not JSON (NaN is no JSON number)"),
        (b'{"request_id":"r1","x":Infinity}', "not JSON (Infinity is no JSON number)"),
        (b'{"request_id":"r1","x":-Infinity}', "not JSON (-Infinity is no JSON number)"),
        (nested(129), "nests deeper than 128"),
        (nested(200), "nests deeper than 128"),
        (nested(100_000), "nests deeper than 128"),
        (b'{"a":' * 129 + b"1" + b"}" * 129, "nests deeper than 128"),
    ],
)
def test_what_is_no_json_object_is_unreadable(body: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_document(body)
    assert reason in str(caught.value)


def test_nesting_up_to_the_bound_is_read() -> None:
    assert read_document(nested(128)).flaw is None


@pytest.mark.parametrize(
    ("member", "flaw"),
    [
        (b'"x":1e999', "a number is too large"),
        (b'"x":-1e999', "a number is too large"),
        (b'"x":[{"y":1e400}]', "a number is too large"),
        (b'"x":' + b"9" * 309, "a number is too large"),
        (b'"x":-' + b"9" * 309, "a number is too large"),
        (b'"x":' + b"9" * 1_000_000, "a number is too large"),
        (b'"x":"\\ud800"', "a string holds half of a surrogate pair"),
        (b'"x":["ok","\\udc00\\ud800"]', "a string holds half of a surrogate pair"),
        (b'"\\ud800":1', "a field name holds half of a surrogate pair"),
        (b'"x":1,"x":1', "duplicate field `x`"),
        (b'"x":1,"\\u0078":2', "duplicate field `x`"),
        (b'"x":{"y":1,"y":1}', "duplicate field `y`"),
        (b'"x":[[{"y":{},"z":1,"y":{}}]]', "duplicate field `y`"),
        (b'"x":{"y":1,"y":1},"x":2', "duplicate field `y`"),
    ],
)
def test_a_flaw_is_named_and_the_id_still_echoed(member: bytes, flaw: str) -> None:
    document = read_document(b'{"request_id":"r1",' + member + b"}")
    assert (document.flaw, document.request_id) == (flaw, "r1")


@pytest.mark.parametrize(
    "member",
    [
        b'"x":1.7976931348623157e308',
        b'"x":1' + b"0" * 308,
        b'"x":"\\ud83d\\ude00"',
        '"x":"é\u2028😀"'.encode(),
        b'"x":5e-400',
        b'"x":{"y":1},"z":{"y":1}',
    ],
)
def test_what_is_large_or_foreign_but_right_has_no_flaw(member: bytes) -> None:
    assert read_document(b"{" + member + b"}").flaw is None


def test_only_the_roots_own_id_counts() -> None:
    assert read_document(b'{"input":{"request_id":"inner"}}').request_id is None
    assert read_document(b'{"request_id":"r1","input":{"request_id":"x"}}').request_id == "r1"


@pytest.mark.parametrize(
    ("members", "rescued"),
    [
        (b'"request_id":"r1"', "r1"),
        (b'"request\\u005fid":"r1"', "r1"),
        (b'"request_id":"A-Za-z0-9_.:"', "A-Za-z0-9_.:"),
        (b'"request_id":"' + b"x" * 128 + b'"', "x" * 128),
        (b'"request_id":"' + b"x" * 129 + b'"', None),
        (b'"request_id":""', None),
        (b'"request_id":" "', None),
        (b'"request_id":"a b"', None),
        (b'"request_id":"r1\\n"', None),
        (b'"request_id":"\xc3\xa9"', None),
        (b'"request_id":7', None),
        (b'"request_id":null', None),
        (b'"request_id":["r1"]', None),
        (b'"request_id":"r1","request_id":"r1"', None),
        (b'"request_id":"r1","request_id":7', None),
        (b'"Request_id":"r1"', None),
    ],
)
def test_which_request_id_is_rescued(members: bytes, rescued: str | None) -> None:
    assert read_document(b"{" + members + b"}").request_id == rescued


def test_an_empty_object_has_neither_id_nor_flaw() -> None:
    document = read_document(b" {} \n")
    assert (document.root, document.request_id, document.flaw) == ({}, None, None)


def test_a_duplicate_behind_very_many_fields_is_found_at_once() -> None:
    names = b",".join(b'"k%d":1' % n for n in range(100_000))
    started = time.process_time()
    assert read_document(b"{" + names + b',"k99999":2}').flaw == "duplicate field `k99999`"
    assert time.process_time() - started < 5, "more than linear in the number of fields"


def test_quoted_is_short_and_printable() -> None:
    assert quoted("temperature") == "`temperature`"
    assert quoted("a\nb\x1b\ud800") == "`a?b??`"
    assert quoted("x" * 64) == f"`{'x' * 64}`"
    assert quoted("x" * 65) == f"`{'x' * 63}…`"


@pytest.mark.parametrize("value", [None, 7, b"r1", "", "r1\n", "é", "x" * 129])
def test_no_request_id(value: object) -> None:
    assert not is_request_id(value)


_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**300), 10**300),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(alphabet=st.characters(codec="utf-8"), max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(alphabet=st.characters(codec="utf-8"), max_size=4), inner),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=30)
@given(root=st.dictionaries(st.text(alphabet="abc", max_size=2), _json), ascii_=st.booleans())
def test_right_json_is_read_as_it_is(root: dict[str, object], ascii_: bool) -> None:
    document = read_document(json.dumps(root, ensure_ascii=ascii_).encode())
    assert document.flaw is None
    assert document.root == root
