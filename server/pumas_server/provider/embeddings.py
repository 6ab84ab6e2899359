"""Projection of embeddings: one coherent, finite vector for each input (notes §4)."""

from __future__ import annotations

import math
from typing import Any

from pumas_server.contract.results import EmbeddingsResult
from pumas_server.provider.answers import incoherent, is_index, read_answer

#: The least number that is infinite once rounded to a float32.
FLOAT32_OVERFLOW = (2 - 2**-24) * 2.0**127


def project_embeddings(raw: bytes, count: int, dimensions: int | None) -> EmbeddingsResult:
    """The vectors of `count` inputs, cut to `dimensions`. Raises `ContractError`.

    The provider must give exactly one vector for each input, in order, all of one width, every
    value finite as a float32.
    """
    data = read_answer(raw).get("data")
    if not isinstance(data, list) or len(data) != count:
        incoherent(f"did not give exactly one embedding for each of {count} inputs")
    vectors = [_vector(entry, position) for position, entry in enumerate(data)]
    width = len(vectors[0])
    if any(len(vector) != width for vector in vectors):
        incoherent("gave embeddings of different widths")
    if dimensions is None:
        return EmbeddingsResult(vectors)
    if dimensions > width:
        incoherent(f"gave embeddings of {width} values, fewer than the {dimensions} asked for")
    return EmbeddingsResult([_cut(vector, dimensions) for vector in vectors])


def _vector(entry: Any, position: int) -> list[float]:
    if not isinstance(entry, dict):
        incoherent("gave an embedding that is not an object")
    index = entry.get("index")
    if not is_index(index) or index != position:
        incoherent(f"gave an embedding whose index is not {position}")
    vector = entry.get("embedding")
    if not isinstance(vector, list) or not vector or not {*map(type, vector)} <= {int, float}:
        incoherent("gave an embedding that is no list of numbers")
    if max(vector) >= FLOAT32_OVERFLOW or min(vector) <= -FLOAT32_OVERFLOW:
        incoherent("gave an embedding with a value that is not finite")
    return vector


def _cut(vector: list[float], dimensions: int) -> list[float]:
    """The leading values at unit length; a vector of zeros stays as it is."""
    kept = vector[:dimensions]
    length = math.hypot(*kept)
    return [value / length for value in kept] if length else kept
