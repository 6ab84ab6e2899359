"""The few-step sampler of latent consistency models (Luo et al. 2023, algorithm 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pumas_server.worker.diffusion.json_config import JsonConfig
from pumas_server.worker.diffusion.noise import Noise
from pumas_server.worker.diffusion.noise_schedule import OPTIONS as SCHEDULE_OPTIONS
from pumas_server.worker.diffusion.noise_schedule import (
    Betas,
    NoiseSchedule,
    read_noise_schedule,
)
from pumas_server.worker.diffusion.prediction import OPTIONS as PREDICTION_OPTIONS
from pumas_server.worker.diffusion.prediction import (
    Latents,
    Prediction,
    read_clip,
    read_prediction,
    split_prediction,
)

DEFAULT_STEPS = 4
DEFAULT_GUIDANCE = 1.0
DEFAULT_EMBEDDED_GUIDANCE = 8.5
"""Of a denoiser that was distilled with guidance as an input."""
_DEFAULT_DISTILLED_STEPS = 50
_DATA_DEVIATION = 0.5
_DEFAULT_BETAS = Betas("scaled_linear", 0.00085, 0.012)
_SCALING_LIMIT = 1e6


@dataclass(frozen=True, slots=True)
class Lcm:
    """The sampler, as its configuration sets it up."""

    schedule: NoiseSchedule
    prediction: Prediction
    distilled_steps: int
    """Timesteps that the model was distilled on, evenly spread over the training's."""
    scaling: float
    """What timesteps are multiplied by in the boundary condition."""
    clip: float | None
    """The largest magnitude of clean latents, when they are clipped."""

    default_steps = DEFAULT_STEPS

    @property
    def steps_limit(self) -> int:
        """The most steps that can be asked for: each is one that the model was distilled on."""
        return self.distilled_steps

    def timesteps(self, steps: int) -> tuple[int, ...]:
        """The timesteps of so many steps, noisiest first; all of those distilled on."""
        apart = self.schedule.steps // self.distilled_steps
        distilled = [(at + 1) * apart - 1 for at in reversed(range(self.distilled_steps))]
        places = np.linspace(0, self.distilled_steps, steps, endpoint=False)
        return tuple(distilled[int(place)] for place in places)

    def advance(
        self, output: Latents, sample: Latents, timesteps: tuple[int, ...], at: int, noise: Noise
    ) -> Latents:
        """The latents after the step `at` of `timesteps`: clean again, and noised for the next.

        Draws once from `noise`, but not after the last step.
        """
        now = timesteps[at]
        clean, _ = split_prediction(
            self.prediction, output, sample, self.schedule.signal(now), self.schedule.noise(now)
        )
        if self.clip is not None:
            clean = np.clip(clean, -self.clip, self.clip)
        skip, out = self.boundary(now)
        consistent = np.float32(out) * clean + np.float32(skip) * sample
        if at + 1 == len(timesteps):
            return consistent
        following = timesteps[at + 1]
        return np.float32(self.schedule.signal(following)) * consistent + np.float32(
            self.schedule.noise(following)
        ) * noise.draw(sample.shape)

    def boundary(self, timestep: int) -> tuple[float, float]:
        """What sample and clean latents are multiplied by; (1, 0) at timestep 0."""
        scaled = timestep * self.scaling
        whole = scaled**2 + _DATA_DEVIATION**2
        return _DATA_DEVIATION**2 / whole, scaled / math.sqrt(whole)


_KNOWN = (
    *SCHEDULE_OPTIONS,
    *PREDICTION_OPTIONS,
    "original_inference_steps",
    "timestep_scaling",
    # Taken from another class and without effect: the timesteps are those distilled on, and none
    # comes before the last.
    "set_alpha_to_one",
    "skip_prk_steps",
    "steps_offset",
    "timestep_spacing",
)


def read_lcm(config: JsonConfig) -> Lcm:
    """Read the configuration of an `LCMScheduler`.

    Raises `HeaderFault`, and names the option, for every one that would change the result and is
    not known: none is passed over.
    """
    config.refuse_others(_KNOWN)
    schedule = read_noise_schedule(config, _DEFAULT_BETAS)
    distilled = min(_DEFAULT_DISTILLED_STEPS, schedule.steps)
    return Lcm(
        schedule=schedule,
        prediction=read_prediction(config, schedule),
        distilled_steps=config.whole("original_inference_steps", 1, schedule.steps, distilled),
        scaling=config.number("timestep_scaling", 0.0, _SCALING_LIMIT, 10.0),
        clip=read_clip(config, default=False),
    )
