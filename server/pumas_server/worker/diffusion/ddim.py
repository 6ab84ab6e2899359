"""The deterministic sampler of Song et al. 2020 ("DDIM", equation 12 with sigma 0)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, assert_never, get_args

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

Spacing = Literal["leading", "trailing", "linspace"]
SPACINGS: tuple[Spacing, ...] = get_args(Spacing)

DEFAULT_STEPS = 25
DEFAULT_GUIDANCE = 7.5
_DEFAULT_BETAS = Betas("linear", 0.0001, 0.02)


@dataclass(frozen=True, slots=True)
class Ddim:
    """The sampler, as its configuration sets it up."""

    schedule: NoiseSchedule
    prediction: Prediction
    spacing: Spacing
    offset: int
    """Added to every timestep of the leading spacing."""
    last_kept: float
    """What is left of the image's variance after the last step."""
    clip: float | None
    """The largest magnitude of clean latents, when they are clipped."""

    default_steps = DEFAULT_STEPS

    @property
    def steps_limit(self) -> int:
        """The most steps that can be asked for: every one has a timestep of the training.

        With the leading spacing they are a stride apart, and the offset must not lead past the end.
        """
        return self.schedule.steps // (self.offset + 1 if self.spacing == "leading" else 1)

    def timesteps(self, steps: int) -> tuple[int, ...]:
        """The timesteps of so many steps, noisiest first; all within the training's."""
        trained = self.schedule.steps
        match self.spacing:
            case "leading":
                apart = trained // steps
                return tuple(at * apart + self.offset for at in reversed(range(steps)))
            case "trailing":
                return tuple(round(trained - at * (trained / steps)) - 1 for at in range(steps))
            case "linspace":
                places = np.linspace(0, trained - 1, steps).round()[::-1]
                return tuple(int(place) for place in places)
            case _:
                assert_never(self.spacing)

    def advance(
        self, output: Latents, sample: Latents, timesteps: tuple[int, ...], at: int, noise: Noise
    ) -> Latents:
        """The latents after the step `at` of `timesteps`. Draws nothing of `noise`."""
        now = timesteps[at]
        # A stride back, whatever the spacing: so the class is defined, and models are judged by it.
        before = now - self.schedule.steps // len(timesteps)
        kept = float(self.schedule.kept[before]) if before >= 0 else self.last_kept
        clean, epsilon = split_prediction(
            self.prediction, output, sample, self.schedule.signal(now), self.schedule.noise(now)
        )
        if self.clip is not None:
            clean = np.clip(clean, -self.clip, self.clip)
        return np.float32(math.sqrt(kept)) * clean + np.float32(math.sqrt(1.0 - kept)) * epsilon


_KNOWN = (
    *SCHEDULE_OPTIONS,
    *PREDICTION_OPTIONS,
    "set_alpha_to_one",
    "steps_offset",
    "timestep_spacing",
    # Left by another class from which a configuration was made; this one never reads it.
    "skip_prk_steps",
)


def read_ddim(config: JsonConfig) -> Ddim:
    """Read the configuration of a `DDIMScheduler`.

    Raises `HeaderFault`, and names the option, for every one that would change the result and is
    not known: none is passed over.
    """
    config.refuse_others(_KNOWN)
    schedule = read_noise_schedule(config, _DEFAULT_BETAS)
    return Ddim(
        schedule=schedule,
        prediction=read_prediction(config, schedule),
        spacing=config.word("timestep_spacing", SPACINGS, "leading"),
        offset=config.whole("steps_offset", 0, schedule.steps - 1, default=0),
        last_kept=1.0 if config.flag("set_alpha_to_one", True) else float(schedule.kept[0]),
        clip=read_clip(config, default=True),
    )
