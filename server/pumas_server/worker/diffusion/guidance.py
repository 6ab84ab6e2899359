"""How strongly an image follows its prompt.

Classifier-free guidance (Ho and Salimans 2022) computes every step twice, with the prompt and with
the empty one, and goes from the second towards the first and past it. A denoiser that was distilled
from that takes the strength as an input instead, and computes once.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pumas_server.worker.diffusion.prediction import Latents

GUIDANCE_LIMIT = 100.0
_EMBEDDING_SCALE = 1000.0
_LONGEST_PERIOD = 10_000.0


def combine_predictions(without: Latents, with_prompt: Latents, guidance: float) -> Latents:
    """What is predicted without the prompt, moved `guidance` times towards that with it."""
    return without + np.float32(guidance) * (with_prompt - without)


def build_guidance_embedding(guidance: float, width: int) -> npt.NDArray[np.float32]:
    """The strength as `[1, width]` sines, then cosines, as a distilled denoiser takes it.

    `width` is at least 4; an odd one ends in a zero.
    """
    half = width // 2
    rates = np.exp(np.arange(half) * (-math.log(_LONGEST_PERIOD) / (half - 1)))
    angles = (guidance - 1.0) * _EMBEDDING_SCALE * rates
    embedding = np.zeros((1, width), np.float32)
    embedding[0, : 2 * half] = np.concatenate([np.sin(angles), np.cos(angles)])
    return embedding
