"""The deterministic sampler: its timesteps, its steps, its options."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.ddim import SPACINGS, Ddim, read_ddim
from pumas_server.worker.diffusion.json_config import JsonConfig
from pumas_server.worker.diffusion.noise import Noise
from pumas_server.worker.header_fault import HeaderFault


def sampler(**members: object) -> Ddim:
    return read_ddim(JsonConfig("s.json", members))


@pytest.mark.parametrize(
    ("spacing", "offset", "steps", "timesteps"),
    [
        ("leading", 0, 4, (750, 500, 250, 0)),
        ("leading", 1, 4, (751, 501, 251, 1)),
        ("leading", 0, 3, (666, 333, 0)),
        ("trailing", 1, 4, (999, 749, 499, 249)),
        ("trailing", 0, 3, (999, 666, 332)),
        ("linspace", 1, 4, (999, 666, 333, 0)),
        ("linspace", 0, 1, (0,)),
    ],
)
def test_timesteps_are_spread_as_told(
    spacing: str, offset: int, steps: int, timesteps: tuple[int, ...]
) -> None:
    told = sampler(timestep_spacing=spacing, steps_offset=offset)
    assert told.timesteps(steps) == timesteps


@given(
    spacing=st.sampled_from(SPACINGS),
    trained=st.integers(2, 1200),
    data=st.data(),
)
@settings(deadline=None)
def test_timesteps_fall_and_are_within_the_training(
    spacing: str, trained: int, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, min(3, trained - 1)))
    told = sampler(
        num_train_timesteps=trained,
        timestep_spacing=spacing,
        steps_offset=offset,
        beta_end=0.01,
    )
    steps = data.draw(st.integers(1, told.steps_limit))
    timesteps = told.timesteps(steps)
    assert len(timesteps) == steps
    assert all(later < sooner for sooner, later in pairwise(timesteps))
    assert 0 <= timesteps[-1] <= timesteps[0] < trained


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_a_perfect_prediction_leads_along_the_same_image_and_noise(prediction: str) -> None:
    told = sampler(prediction_type=prediction, clip_sample=False, set_alpha_to_one=True)
    schedule = told.schedule
    clean, epsilon = (Noise(seed).draw((1, 4, 2, 3)) for seed in (1, 2))
    timesteps = told.timesteps(4)
    now, before = timesteps[0], timesteps[1]

    def mixture(signal: float, noise: float) -> Any:
        return signal * clean + noise * epsilon

    velocity = schedule.signal(now) * epsilon - schedule.noise(now) * clean
    output = epsilon if prediction == "epsilon" else velocity.astype(np.float32)
    sample = mixture(schedule.signal(now), schedule.noise(now)).astype(np.float32)
    result = told.advance(output, sample, timesteps, 0, Noise(0))
    assert result.dtype == np.float32
    expected = mixture(schedule.signal(before), schedule.noise(before))
    np.testing.assert_allclose(result, expected, atol=2e-4)


def test_the_last_step_ends_at_the_image_or_at_the_first_alpha() -> None:
    clean, epsilon = (Noise(seed).draw((1, 1, 2, 2)) for seed in (1, 2))
    for whole in (True, False):
        told = sampler(clip_sample=False, set_alpha_to_one=whole)
        timesteps = told.timesteps(2)
        now = timesteps[1]
        sample = told.schedule.signal(now) * clean + told.schedule.noise(now) * epsilon
        result = told.advance(epsilon, sample.astype(np.float32), timesteps, 1, Noise(0))
        kept = 1.0 if whole else float(told.schedule.kept[0])
        expected = math.sqrt(kept) * clean + math.sqrt(1 - kept) * epsilon
        np.testing.assert_allclose(result, expected, atol=1e-5)


def test_the_clean_image_alone_is_clipped() -> None:
    told = sampler(clip_sample_range=0.5)
    assert told.clip == 0.5
    sample = np.full((1, 1, 1, 1), 9.0, np.float32)
    epsilon = np.full_like(sample, 2.0)
    result = told.advance(epsilon, sample, (500, 1), 0, Noise(0))
    schedule = told.schedule
    assert result.item() == pytest.approx(schedule.signal(0) * 0.5 + schedule.noise(0) * 2.0)


def test_what_is_not_told_is_as_the_class_has_it() -> None:
    told = sampler()
    assert (told.prediction, told.spacing, told.offset) == ("epsilon", "leading", 0)
    assert (told.last_kept, told.clip, told.schedule.steps) == (1.0, 1.0, 1000)


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"thresholding": True}, "thresholding is not supported"),
    ({"trained_betas": [0.1, 0.2]}, "trained_betas is not supported"),
    ({"use_karras_sigmas": True}, "use_karras_sigmas is not supported"),
    ({"an_option_of_tomorrow": 1}, "an_option_of_tomorrow is not supported"),
    (
        {"prediction_type": "sample"},
        'prediction_type is "sample"; supported: epsilon, v_prediction',
    ),
    (
        {"timestep_spacing": "random"},
        'timestep_spacing is "random"; supported: leading, trailing, linspace',
    ),
    ({"rescale_betas_zero_snr": True}, "rescale_betas_zero_snr needs v_prediction"),
]


@pytest.mark.parametrize(("members", "message"), REFUSED)
def test_an_option_that_would_change_the_result_is_refused_by_name(
    members: dict[str, object], message: str
) -> None:
    with pytest.raises(HeaderFault) as caught:
        sampler(**members)
    assert caught.value.reason is Reason.NOT_IMPLEMENTED
    assert caught.value.message == f"s.json: {message}"


def test_an_offset_past_the_training_is_no_model() -> None:
    with pytest.raises(HeaderFault, match="steps_offset is 1000") as caught:
        sampler(steps_offset=1000)
    assert caught.value.reason is Reason.NOT_A_MODEL
