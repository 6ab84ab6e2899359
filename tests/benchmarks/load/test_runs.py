"""Which runs count, and what is told of them."""

from __future__ import annotations

import math

import pytest
from load.runs import Load, Run, Runs


def run(rate: float, generator: float = 0.1, provider: float = 0.1, router: float = 1.0) -> Run:
    return Run({"rate": rate}, Load(generator, provider, router))


@pytest.mark.parametrize(
    ("generator", "provider", "fault"),
    [
        (0.1, 0.1, None),
        (0.8, 0.1, None),
        (0.81, 0.1, "generator used 81%"),
        (0.1, 0.81, "provider used 81%"),
        (0.5, 0.45, None),
        (0.5, 0.5, "together used 100%"),
    ],
)
def test_a_run_is_void_when_the_core_of_the_generator_was_not_enough(
    generator: float, provider: float, fault: str | None
) -> None:
    told = Load(generator, provider, 1.0).fault()
    assert (told is None) if fault is None else (told is not None and fault in told)


def test_the_median_is_of_the_runs_that_count() -> None:
    void: list[str] = []
    runs = Runs("calls, ours", void)
    for rate in (5, 1, 3):
        runs.add(run(rate))
    runs.add(run(1000, generator=0.9))
    assert (runs.median("rate"), runs.total("rate"), len(runs)) == (3, 9, 3)
    assert void == ["calls, ours: the generator used 90% of its core"]


def test_without_a_run_that_counts_no_goal_is_met() -> None:
    runs = Runs("calls, ours", [])
    runs.add(run(1000, provider=0.9))
    figure = runs.median("rate")
    assert math.isnan(figure) and math.isnan(runs.total("rate"))
    assert not figure >= 1 and not figure <= 1
    assert str(runs.load()) == "[void]"


def test_the_provider_itself_may_use_its_core_up() -> None:
    void: list[str] = []
    runs = Runs("calls, direct", void, may_saturate=True)
    runs.add(run(50_000, generator=0.45, provider=0.55, router=0.0))
    assert runs.median("rate") == 50_000 and void == []
    assert str(runs.load()) == "[45 + 55 | 0 %]"
