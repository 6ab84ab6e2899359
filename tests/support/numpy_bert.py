"""An encoder's forward pass in plain numpy, from weights by their names on the hub.

Straightforward and slow on purpose: what the engine computes is compared with this. One input at a
time, so there is no padding and no mask to get wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Weights = Mapping[str, np.ndarray[Any, np.dtype[Any]]]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def hidden_states(
    weights: Weights, ids: Sequence[int], types: Sequence[int], *, layers: int, heads: int
) -> Array:
    """A vector for each token, as (tokens, width)."""
    at = "embeddings."
    state = (
        weights[at + "word_embeddings.weight"][list(ids)]
        + weights[at + "position_embeddings.weight"][: len(ids)]
        + weights[at + "token_type_embeddings.weight"][list(types)]
    ).astype(np.float64)
    state = _norm(weights, at + "LayerNorm", state)
    for layer in range(layers):
        state = _layer(weights, f"encoder.layer.{layer}.", state, heads)
    return state


def _layer(weights: Weights, at: str, state: Array, heads: int) -> Array:
    size = state.shape[1] // heads
    query, key, value = (
        _linear(weights, f"{at}attention.self.{name}", state) for name in ("query", "key", "value")
    )
    mixed = np.zeros_like(state)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        scores = query[:, part] @ key[:, part].T / math.sqrt(size)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        mixed[:, part] = shares / shares.sum(axis=1, keepdims=True) @ value[:, part]
    mixed = _linear(weights, at + "attention.output.dense", mixed)
    state = _norm(weights, at + "attention.output.LayerNorm", state + mixed)
    inner = _linear(weights, at + "intermediate.dense", state)
    inner = inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))
    return _norm(
        weights, at + "output.LayerNorm", state + _linear(weights, at + "output.dense", inner)
    )


def _linear(weights: Weights, at: str, state: Array) -> Array:
    product: Array = state @ weights[at + ".weight"].T.astype(np.float64)
    return product + weights[at + ".bias"]


def _norm(weights: Weights, at: str, state: Array) -> Array:
    centred = state - state.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    result: Array = scaled * weights[at + ".weight"] + weights[at + ".bias"]
    return result


def unit(vector: Array) -> Array:
    """The vector at length 1."""
    scaled: Array = vector / math.sqrt(float(vector @ vector))
    return scaled
