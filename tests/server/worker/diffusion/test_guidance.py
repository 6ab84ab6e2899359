"""Guidance: mixed from two predictions, or fed as an input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pumas_server.worker.diffusion.guidance import build_guidance_embedding, combine_predictions


@pytest.mark.parametrize(("guidance", "value"), [(0.0, 1.0), (1.0, 3.0), (7.5, 16.0)])
def test_guidance_goes_from_the_empty_prompt_past_the_prompt(guidance: float, value: float) -> None:
    without = np.full((1, 1, 1, 1), 1.0, np.float32)
    with_prompt = np.full((1, 1, 1, 1), 3.0, np.float32)
    combined = combine_predictions(without, with_prompt, guidance)
    assert combined.dtype == np.float32
    assert combined.item() == value


def test_the_embedding_is_sines_and_cosines_of_ever_slower_waves() -> None:
    embedding = build_guidance_embedding(1.002, 6)
    angles = [2.0, 2.0 / 100, 2.0 / 10_000]
    expected = [*map(math.sin, angles), *map(math.cos, angles)]
    assert embedding.dtype == np.float32
    np.testing.assert_allclose(embedding, [expected], atol=1e-6)


def test_an_odd_width_ends_in_a_zero() -> None:
    embedding = build_guidance_embedding(8.5, 9)
    assert embedding.shape == (1, 9)
    np.testing.assert_array_equal(embedding[0, :8], build_guidance_embedding(8.5, 8)[0])
    assert embedding[0, 8] == 0
