"""The seed's promise."""

from __future__ import annotations

import numpy as np

from pumas_server.worker.diffusion.noise import Noise


def test_the_draws_are_the_promised_generators() -> None:
    noise = Noise(7)
    promised = np.random.Generator(np.random.PCG64(7))
    for shape in ((1, 4, 3, 5), (2, 3), (1,)):
        drawn = noise.draw(shape)
        assert drawn.dtype == np.float32
        np.testing.assert_array_equal(drawn, promised.standard_normal(shape, dtype=np.float32))


def test_the_draws_of_a_known_seed_have_not_moved() -> None:
    expected = [1.5219693, -1.1441058, 1.1501616]
    np.testing.assert_allclose(Noise(7).draw((3,)), expected, atol=1e-6)


def test_seeds_differ_at_both_ends_of_their_range() -> None:
    draws = {Noise(seed).draw((4,)).tobytes() for seed in (0, 1, (1 << 32) - 2, (1 << 32) - 1)}
    assert len(draws) == 4
