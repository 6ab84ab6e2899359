"""Where all randomness of an image comes from: one generator, started by the seed.

The promise: the draws are those of `numpy.random.Generator(numpy.random.PCG64(seed))`,
`standard_normal` in float32, in the order in which the pipeline asks: the first latents, then, with
a sampler that adds noise, once after each step but the last. Neither device, batch nor threads
play a part. NumPy may change the normal distribution's method in a release, and says so when it
does; the pinned version of this project decides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Noise:
    """Standard normal numbers from a seed, each drawn once."""

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def draw(self, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
        """The next numbers, in C order."""
        return self._generator.standard_normal(shape, dtype=np.float32)
