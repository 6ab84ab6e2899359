"""A line through samples: how much a level grew over the time in which it was sampled. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def growth(times: Sequence[float], levels: Sequence[float]) -> float:
    """By what part of their mean the levels rose from the first time to the last.

    By least squares, so that one sample at an end weighs no more than another.
    """
    slope, _ = statistics.linear_regression(times, levels)
    return slope * (times[-1] - times[0]) / statistics.fmean(levels)
