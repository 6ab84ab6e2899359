"""Schedules of noise against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.worker.diffusion.json_config import JsonConfig
from pumas_server.worker.diffusion.noise_schedule import (
    BETA_SCHEDULES,
    Betas,
    BetaSchedule,
    NoiseSchedule,
    build_betas,
    build_zero_terminal,
    read_noise_schedule,
)
from pumas_server.worker.header_fault import HeaderFault

DEFAULT = Betas("linear", 0.0001, 0.02)


def read(**members: object) -> NoiseSchedule:
    return read_noise_schedule(JsonConfig("s.json", members), DEFAULT)


def test_signal_and_noise_are_the_roots_of_what_is_kept_and_what_is_not() -> None:
    schedule = read(num_train_timesteps=2, beta_start=0.19, beta_end=0.5)
    assert schedule.steps == 2
    assert schedule.signal(0) == pytest.approx(0.9)
    assert schedule.noise(0) == pytest.approx(math.sqrt(0.19))
    assert schedule.signal(1) ** 2 == pytest.approx(0.81 * 0.5)


def test_the_defaults_are_those_of_the_class() -> None:
    np.testing.assert_array_equal(
        read().kept,
        read(
            num_train_timesteps=1000, beta_schedule="linear", beta_start=0.0001, beta_end=0.02
        ).kept,
    )


@pytest.mark.parametrize(
    ("schedule", "middle"),
    [
        ("linear", 0.25),
        ("scaled_linear", (math.sqrt(0.1) + math.sqrt(0.4)) ** 2 / 4),
        (
            "squaredcos_cap_v2",
            1
            - math.cos((2 / 3 + 0.008) / 1.008 * math.pi / 2) ** 2
            / math.cos((1 / 3 + 0.008) / 1.008 * math.pi / 2) ** 2,
        ),
    ],
)
def test_betas_go_the_named_way(schedule: BetaSchedule, middle: float) -> None:
    betas = build_betas(Betas(schedule, 0.1, 0.4), 3)
    assert betas[1] == pytest.approx(middle)
    assert (betas[0], betas[2]) == pytest.approx(
        (0.1, 0.4) if schedule != "squaredcos_cap_v2" else (betas[0], 0.999)
    )


@given(
    schedule=st.sampled_from(BETA_SCHEDULES),
    steps=st.integers(2, 2000),
    start=st.floats(1e-5, 0.05),
    end=st.floats(1e-5, 0.05),
    zero=st.booleans(),
)
@settings(deadline=None)
def test_what_is_kept_falls_and_stays_a_part(
    schedule: str, steps: int, start: float, end: float, zero: bool
) -> None:
    kept = read(
        num_train_timesteps=steps,
        beta_schedule=schedule,
        beta_start=start,
        beta_end=end,
        rescale_betas_zero_snr=zero,
    ).kept
    assert np.all(np.diff(kept) < 0)
    assert 0 <= kept[-1] < kept[0] < 1
    assert (kept[-1] == 0) == zero


def test_zero_terminal_keeps_the_first_step() -> None:
    kept = np.array([0.81, 0.36, 0.09])
    np.testing.assert_allclose(build_zero_terminal(kept), [0.81, 0.2025, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"num_train_timesteps": 1}, "num_train_timesteps is 1, not an integer of 2 to 10000"),
        ({"num_train_timesteps": 10**9}, "not an integer of 2 to 10000"),
        ({"beta_schedule": "sigmoid"}, 'beta_schedule is "sigmoid"; supported: linear, scaled'),
        ({"beta_start": -0.1}, "beta_start is -0.1, not a number above 0"),
        ({"beta_end": 1}, "beta_end is 1, not a number above 0"),
        ({"rescale_betas_zero_snr": 1}, "rescale_betas_zero_snr is 1, not true or false"),
        ({"beta_start": 0.9, "beta_end": 0.9}, "beta_start and beta_end leave nothing"),
    ],
)
def test_what_makes_no_schedule_is_refused_by_name(
    members: dict[str, object], message: str
) -> None:
    with pytest.raises(HeaderFault, match=message):
        read(**members)
