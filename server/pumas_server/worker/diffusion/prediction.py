"""What a denoiser's output says: the clean image, and the noise, at one timestep."""

from __future__ import annotations

from typing import Literal, assert_never, get_args

import numpy as np
import numpy.typing as npt

from pumas_server.worker.diffusion.json_config import JsonConfig, not_built
from pumas_server.worker.diffusion.noise_schedule import NoiseSchedule

Latents = npt.NDArray[np.float32]
"""`[1, channels, height, width]`, in latent pixels."""

Prediction = Literal["epsilon", "v_prediction"]
PREDICTIONS: tuple[Prediction, ...] = get_args(Prediction)

OPTIONS = (
    "clip_sample",
    "clip_sample_range",
    "prediction_type",
    # Of dynamic thresholding, which is refused where it is switched on.
    "dynamic_thresholding_ratio",
    "sample_max_value",
)
"""Of a scheduler's configuration, those that are read here, or mean nothing without another."""
_CLIP_LIMIT = 1e6


def read_prediction(config: JsonConfig, schedule: NoiseSchedule) -> Prediction:
    """Read what the denoiser was trained to give; raises `HeaderFault` for what is not known."""
    kind = config.word("prediction_type", PREDICTIONS, "epsilon")
    if kind == "epsilon" and schedule.kept[-1] <= 0.0:
        # At the noisiest timestep nothing of the image is left, so the noise does not tell it.
        raise not_built(f"{config.file}: rescale_betas_zero_snr needs v_prediction")
    return kind


def read_clip(config: JsonConfig, default: bool) -> float | None:
    """Read the largest magnitude of clean latents; None when they are not clipped."""
    reach = config.number("clip_sample_range", 0.0, _CLIP_LIMIT, 1.0)
    return reach if config.flag("clip_sample", default) else None


def split_prediction(
    kind: Prediction, output: Latents, sample: Latents, signal: float, noise: float
) -> tuple[Latents, Latents]:
    """The clean latents and the noise that `output` claims `sample` to be a mixture of.

    `sample = signal * clean + noise * epsilon`. A denoiser gives epsilon itself, or the velocity
    `signal * epsilon - noise * clean` (Salimans and Ho 2022).
    """
    match kind:
        case "epsilon":
            scaled: Latents = np.float32(1.0 / signal) * (sample - np.float32(noise) * output)
            return scaled, output
        case "v_prediction":
            clean = np.float32(signal) * sample - np.float32(noise) * output
            epsilon: Latents = np.float32(signal) * output + np.float32(noise) * sample
            return clean, epsilon
        case _:
            assert_never(kind)
