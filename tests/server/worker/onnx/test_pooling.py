"""Pooling and normalisation, against the definitions written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.worker.onnx.pooling import LayerNorm, pool, unit
from pumas_server.worker.onnx.recipe import Pooling

CHANCE = np.random.default_rng(0)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from(Pooling))
def test_padding_counts_for_nothing(lengths: list[int], pooling: Pooling) -> None:
    tokens = CHANCE.standard_normal((len(lengths), 9, 4)).astype(np.float32)
    mask = (np.arange(9) < np.array(lengths)[:, None]).astype(np.int64)
    found = pool(tokens, mask, pooling)
    for row, length in enumerate(lengths):
        own = tokens[row, :length]
        wanted = {
            Pooling.MEAN: own.mean(axis=0),
            Pooling.CLS: own[0],
            Pooling.LAST: own[-1],
        }[pooling]
        assert found[row] == pytest.approx(wanted, abs=1e-5)


@given(
    st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=2, max_size=9), st.integers(1, 9)
)
def test_unit(values: list[float], dimensions: int) -> None:
    vector = np.array([values], np.float32)
    found = unit(vector, dimensions)
    kept = values[:dimensions]
    assert found.shape == (1, len(kept))
    if any(abs(value) > 1e-15 for value in kept):
        assert float(np.linalg.norm(found.astype(np.float64))) == pytest.approx(1, abs=1e-5)


def test_zeros_stay_and_what_is_not_finite_shows() -> None:
    assert unit(np.zeros((1, 3), np.float32)).tolist() == [[0, 0, 0]]
    assert np.isnan(unit(np.array([[1, np.nan]], np.float32))).all()
    assert not np.isfinite(unit(np.array([[1, np.inf]], np.float32))).all()


def test_layer_norm() -> None:
    vectors = CHANCE.standard_normal((3, 8)).astype(np.float32)
    weight, bias = CHANCE.standard_normal((2, 8)).astype(np.float32)
    for vector, found in zip(vectors, LayerNorm(weight, bias)(vectors), strict=True):
        wanted = (vector - vector.mean()) / np.sqrt(vector.var() + 1e-5) * weight + bias
        assert found == pytest.approx(wanted, abs=1e-5)
