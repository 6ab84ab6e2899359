"""Batches hold every input once, are bounded, and waste little."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pumas_server.worker.onnx.batches import select_batches

LENGTHS = st.lists(st.integers(1, 600), max_size=128)


@given(LENGTHS, st.integers(1, 4096), st.booleans())
def test_batches(lengths: list[int], limit: int, equal: bool) -> None:
    batches = select_batches(lengths, limit, equal=equal)
    assert sorted(n for batch in batches for n in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[n] for n in batch)
        assert len(batch) == 1 or len(batch) * longest <= limit
        if equal:
            assert {lengths[n] for n in batch} == {longest}
    firsts = [lengths[n] for batch in batches for n in batch]
    assert firsts == sorted(firsts)


@given(LENGTHS)
def test_no_two_neighbours_would_fit_together(lengths: list[int]) -> None:
    batches = select_batches(lengths, 1024)
    for batch, following in pairwise(batches):
        assert (len(batch) + 1) * lengths[following[0]] > 1024


def test_examples() -> None:
    assert select_batches([], 20) == []
    assert select_batches([5, 900, 5, 6], 20) == [[0, 2, 3], [1]]
    assert select_batches([5, 900, 5, 6], 20, equal=True) == [[0, 2], [3], [1]]
