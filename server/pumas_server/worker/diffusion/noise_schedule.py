"""How much of the image is left at each timestep of the training: the cumulative alphas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, assert_never, get_args

import numpy as np
import numpy.typing as npt

from pumas_server.worker.diffusion.json_config import JsonConfig
from pumas_server.worker.header_fault import no_model

BetaSchedule = Literal["linear", "scaled_linear", "squaredcos_cap_v2"]
BETA_SCHEDULES: tuple[BetaSchedule, ...] = get_args(BetaSchedule)

OPTIONS = (
    "beta_end",
    "beta_schedule",
    "beta_start",
    "num_train_timesteps",
    "rescale_betas_zero_snr",
)
"""Of a scheduler's configuration, those that are read here."""
TRAINED_STEPS_LIMIT = 10_000
"""Ten times what any published pipeline was trained with."""
_COSINE_OFFSET = 0.008
_LARGEST_BETA = 0.999


@dataclass(frozen=True, slots=True)
class Betas:
    """The first and the last variance that a timestep adds, and the way from one to the other."""

    schedule: BetaSchedule
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class NoiseSchedule:
    """The noise of a training of `steps` timesteps."""

    kept: npt.NDArray[np.float64]
    """By timestep, the part of the image's variance that is left: falls from 1 towards 0."""

    @property
    def steps(self) -> int:
        """Timesteps of the training."""
        return len(self.kept)

    def signal(self, timestep: int) -> float:
        """What the image is multiplied by at a timestep."""
        return math.sqrt(float(self.kept[timestep]))

    def noise(self, timestep: int) -> float:
        """What the noise is multiplied by at a timestep."""
        return math.sqrt(1.0 - float(self.kept[timestep]))


def read_noise_schedule(config: JsonConfig, default: Betas) -> NoiseSchedule:
    """Read the schedule of a scheduler's configuration, with the defaults of its class.

    Raises `HeaderFault` for a schedule that is not known, and for numbers that make none.
    """
    steps = config.whole("num_train_timesteps", 2, TRAINED_STEPS_LIMIT, default=1000)
    betas = Betas(
        config.word("beta_schedule", BETA_SCHEDULES, default.schedule),
        config.number("beta_start", 0.0, _LARGEST_BETA, default.start),
        config.number("beta_end", 0.0, _LARGEST_BETA, default.end),
    )
    kept: npt.NDArray[np.float64] = np.cumprod(1.0 - build_betas(betas, steps), dtype=np.float64)
    if config.flag("rescale_betas_zero_snr", False):
        kept = build_zero_terminal(kept)
    if kept[-2] <= 0.0:
        # So much noise that a float64 does not hold what is left of the image.
        raise no_model(f"{config.file}: beta_start and beta_end leave nothing of the image")
    return NoiseSchedule(kept)


def build_betas(betas: Betas, steps: int) -> npt.NDArray[np.float64]:
    """The variance that each timestep adds; the cosine has no use for start and end."""
    match betas.schedule:
        case "linear":
            return np.linspace(betas.start, betas.end, steps)
        case "scaled_linear":
            return np.linspace(math.sqrt(betas.start), math.sqrt(betas.end), steps) ** 2
        case "squaredcos_cap_v2":
            at = (np.arange(steps + 1) / steps + _COSINE_OFFSET) / (1 + _COSINE_OFFSET)
            left = np.cos(at * (math.pi / 2)) ** 2
            added: npt.NDArray[np.float64] = 1.0 - left[1:] / left[:-1]
            return added.clip(max=_LARGEST_BETA)
        case _:
            assert_never(betas.schedule)


def build_zero_terminal(kept: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rescale so that nothing of the image is left at the last timestep (Lin et al. 2023, alg. 1).

    The first timestep keeps what it had.
    """
    signal = np.sqrt(kept)
    first, last = signal[0], signal[-1]
    scaled: npt.NDArray[np.float64] = ((signal - last) * (first / (first - last))) ** 2
    return scaled
