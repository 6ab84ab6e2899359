"""The few-step sampler: its timesteps, its steps, its options."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.json_config import JsonConfig
from pumas_server.worker.diffusion.lcm import Lcm, read_lcm
from pumas_server.worker.diffusion.noise import Noise
from pumas_server.worker.header_fault import HeaderFault


def sampler(**members: object) -> Lcm:
    return read_lcm(JsonConfig("s.json", members))


@pytest.mark.parametrize(
    ("distilled", "steps", "timesteps"),
    [
        (50, 1, (999,)),
        (50, 2, (999, 499)),
        (50, 4, (999, 759, 499, 259)),
        (50, 8, (999, 879, 759, 639, 499, 379, 259, 139)),
        (100, 4, (999, 749, 499, 249)),
        (3, 3, (998, 665, 332)),
    ],
)
def test_timesteps_are_some_of_those_distilled_on(
    distilled: int, steps: int, timesteps: tuple[int, ...]
) -> None:
    assert sampler(original_inference_steps=distilled).timesteps(steps) == timesteps


@given(trained=st.integers(2, 1200), data=st.data())
@settings(deadline=None)
def test_timesteps_fall_and_are_within_the_training(trained: int, data: st.DataObject) -> None:
    distilled = data.draw(st.integers(1, trained))
    told = sampler(num_train_timesteps=trained, original_inference_steps=distilled)
    steps = data.draw(st.integers(1, told.steps_limit))
    timesteps = told.timesteps(steps)
    assert len(timesteps) == steps
    assert all(later < sooner for sooner, later in pairwise(timesteps))
    assert 0 <= timesteps[-1] <= timesteps[0] < trained


def test_a_perfect_prediction_of_the_last_step_gives_the_image() -> None:
    told = sampler()
    clean, epsilon = (Noise(seed).draw((1, 4, 2, 3)) for seed in (1, 2))
    now = told.timesteps(1)[0]
    sample = told.schedule.signal(now) * clean + told.schedule.noise(now) * epsilon
    result = told.advance(epsilon, sample.astype(np.float32), (now,), 0, Noise(0))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, clean, atol=1e-4)


def test_between_steps_noise_is_drawn_and_after_the_last_none() -> None:
    told = sampler(timestep_scaling=1e6)
    clean = Noise(1).draw((1, 4, 2, 3))
    timesteps = told.timesteps(2)
    now, following = timesteps
    sample = (told.schedule.signal(now) * clean).astype(np.float32)
    noise = Noise(5)
    result = told.advance(np.zeros_like(clean), sample, timesteps, 0, noise)
    drawn = Noise(5).draw(clean.shape)
    expected = told.schedule.signal(following) * clean + told.schedule.noise(following) * drawn
    np.testing.assert_allclose(result, expected, atol=1e-5)
    untouched = Noise(6)
    told.advance(np.zeros_like(clean), sample, timesteps, 1, untouched)
    np.testing.assert_array_equal(untouched.draw((3,)), Noise(6).draw((3,)))


def test_the_boundary_is_the_identity_at_timestep_zero() -> None:
    told = sampler()
    assert told.boundary(0) == (1.0, 0.0)
    skip, out = told.boundary(5)
    assert skip == pytest.approx(0.25 / 2500.25)
    assert out == pytest.approx(50 / 2500.25**0.5)


def test_what_is_not_told_is_as_the_class_has_it() -> None:
    told = sampler()
    assert (told.prediction, told.distilled_steps, told.scaling) == ("epsilon", 50, 10.0)
    assert told.clip is None
    assert 1 - told.schedule.kept[0] == pytest.approx(0.00085)
    assert sampler(num_train_timesteps=20).distilled_steps == 20


def test_options_without_effect_on_this_class_have_none() -> None:
    told = sampler(
        set_alpha_to_one=False, steps_offset=1, timestep_spacing="trailing", skip_prk_steps=True
    )
    assert told.timesteps(4) == sampler().timesteps(4)


@pytest.mark.parametrize(
    ("members", "message", "reason"),
    [
        ({"thresholding": True}, "thresholding is not supported", Reason.NOT_IMPLEMENTED),
        ({"trained_betas": [0.1]}, "trained_betas is not supported", Reason.NOT_IMPLEMENTED),
        ({"tomorrow": 1}, "tomorrow is not supported", Reason.NOT_IMPLEMENTED),
        (
            {"prediction_type": "sample"},
            'prediction_type is "sample"; supported: epsilon, v_prediction',
            Reason.NOT_IMPLEMENTED,
        ),
        (
            {"rescale_betas_zero_snr": True},
            "rescale_betas_zero_snr needs v_prediction",
            Reason.NOT_IMPLEMENTED,
        ),
        (
            {"original_inference_steps": 1001},
            "original_inference_steps is 1001, not an integer of 1 to 1000",
            Reason.NOT_A_MODEL,
        ),
        (
            {"timestep_scaling": 0},
            "timestep_scaling is 0, not a number above 0 and up to 1e+06",
            Reason.NOT_A_MODEL,
        ),
    ],
)
def test_an_option_that_would_change_the_result_is_refused_by_name(
    members: dict[str, object], message: str, reason: Reason
) -> None:
    with pytest.raises(HeaderFault) as caught:
        sampler(**members)
    assert (caught.value.reason, caught.value.message) == (reason, f"s.json: {message}")
