"""A body is what came of it, however long it is and in whatever pieces it came."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.router.growing_body import LONG_BYTES, GrowingBody, assemble

_BOUND = st.sampled_from([LONG_BYTES - 2, LONG_BYTES - 1, LONG_BYTES, LONG_BYTES + 1])


@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.integers(0, 40) | _BOUND, max_size=4))
def test_it_is_its_pieces(sizes: list[int]) -> None:
    pieces = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    whole = b"".join(pieces)
    body = GrowingBody(max(1, len(whole)))
    for piece in pieces:
        body.append(piece)
    assert body.size == len(whole)
    got = body.whole()
    assert got == whole
    assert isinstance(got, bytes) is (len(whole) < LONG_BYTES)
    assert assemble(*pieces) == whole


def test_one_piece_is_not_copied() -> None:
    piece = b"a" * 1000
    body = GrowingBody(1000)
    body.append(piece)
    assert body.whole() is piece


def test_a_long_one_cannot_be_written_to() -> None:
    view = assemble(b"a" * LONG_BYTES)
    assert isinstance(view, memoryview)
    assert view.readonly


@pytest.mark.parametrize("most", [1, LONG_BYTES, LONG_BYTES + 5])
def test_there_is_a_most(most: int) -> None:
    body = GrowingBody(most)
    body.append(b"a" * most)
    with pytest.raises(ValueError, match=f"more than {most} bytes"):
        body.append(b"a")
    assert body.whole() == b"a" * most


def private_bytes() -> int:
    told = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * int(told.partition("Private_Dirty:")[2].split()[0])


def test_memory_is_there_once_it_is_written_and_is_given_back() -> None:
    gc.collect()
    before = private_bytes()
    body = GrowingBody(32 * LONG_BYTES)
    body.append(b"a" * LONG_BYTES)
    # A huge page has two megabytes.
    assert private_bytes() - before < 8 * LONG_BYTES
    for _ in range(31):
        body.append(b"a" * LONG_BYTES)
    view = body.whole()
    del body
    assert private_bytes() - before > 30 * LONG_BYTES
    del view
    assert private_bytes() - before < 8 * LONG_BYTES
