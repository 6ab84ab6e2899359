"""From token vectors to embeddings: pooling, normalisation, cutting. Pure, in 32-bit numbers.

Shapes: token vectors are (inputs, tokens, width), masks (inputs, tokens), vectors (inputs, width).
Padding is on the right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from pumas_server.worker.onnx.recipe import Pooling

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.int64]

#: What the hub's layer normalisation adds to a variance.
EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """A normalisation over a vector's values, with its learnt scale and shift."""

    weight: Floats
    bias: Floats

    def __call__(self, vectors: Floats) -> Floats:
        """Each vector at mean 0 and variance 1, scaled and shifted."""
        centred = vectors - vectors.mean(axis=1, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + EPSILON)
        result: Floats = centred / deviation * self.weight + self.bias
        return result.astype(np.float32, copy=False)


def pool(tokens: Floats, mask: Mask, pooling: Pooling) -> Floats:
    """One vector for each input; padding counts for nothing."""
    match pooling:
        case Pooling.MEAN:
            # As a product of matrices: no copy of all token vectors is made.
            weights = mask[:, None, :].astype(np.float32)
            pooled: Floats = (weights @ tokens)[:, 0] / weights.sum(axis=2)
            return pooled
        case Pooling.CLS:
            return tokens[:, 0].copy()
        case Pooling.LAST:
            last = mask.sum(axis=1) - 1
            chosen: Floats = tokens[np.arange(len(tokens)), last]
            return chosen
        case _:
            assert_never(pooling)


def unit(vectors: Floats, dimensions: int | None = None) -> Floats:
    """The leading `dimensions` values of each vector, or all, at length 1; zeros stay zeros."""
    kept = vectors[:, :dimensions]
    lengths = np.sqrt(np.einsum("ij,ij->i", kept, kept, dtype=np.float64))[:, None]
    with np.errstate(invalid="ignore"):  # what is not finite stays so, for the caller to see
        return (kept / np.where(lengths == 0, 1, lengths)).astype(np.float32)
