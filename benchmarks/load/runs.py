"""Runs of one measurement: what each found, what the cores did, and which of them count.

Generator and provider share one core, so a share is always one of that core, and there are two
ways for a run to be void: either of the two used more than 80 % of the core, or the two together
used it up. In both the figure would be theirs and not the router's.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

#: Above this share of their core, generator or provider is what is measured.
BUSY = 0.8
#: Above this share for both together, nothing of their core was left.
FULL = 0.95


@dataclass(frozen=True)
class Load:
    """Shares of a core. The first two are of the same one."""

    generator: float
    provider: float
    router: float

    def fault(self) -> str | None:
        """Why a run under this load is void."""
        for name, share in (("generator", self.generator), ("provider", self.provider)):
            if share > BUSY:
                return f"the {name} used {share:.0%} of its core"
        both = self.generator + self.provider
        if both > FULL:
            return f"generator and provider together used {both:.0%} of their core"
        return None

    def __str__(self) -> str:
        shares = (self.generator, self.provider, self.router)
        if any(map(math.isnan, shares)):
            return "[void]"
        return "[{:.0f} + {:.0f} | {:.0f} %]".format(*(share * 100 for share in shares))


@dataclass(frozen=True)
class Run:
    """What one run of a generator told, and the load meanwhile."""

    told: dict[str, float]
    load: Load


class Runs:
    """The runs of one measurement, round by round. A void one is told to `void` and not counted.

    `may_saturate` is for the provider itself without a router: its ceiling is what is asked.
    """

    def __init__(self, what: str, void: list[str], *, may_saturate: bool = False) -> None:
        self._what = what
        self._void = void
        self._may_saturate = may_saturate
        self._counted: list[Run] = []

    def add(self, run: Run) -> None:
        """Count the run, or tell why not."""
        fault = None if self._may_saturate else run.load.fault()
        if fault is None:
            self._counted.append(run)
        else:
            self._void.append(f"{self._what}: {fault}")

    def __len__(self) -> int:
        """How many runs count."""
        return len(self._counted)

    def median(self, key: str) -> float:
        """Of what the runs told; not a number when none counts, which meets no goal."""
        return _median([run.told[key] for run in self._counted])

    def total(self, key: str) -> float:
        """Of what the runs told; not a number when none counts."""
        return sum(run.told[key] for run in self._counted) if self._counted else math.nan

    def load(self) -> Load:
        """The medians of the shares."""
        loads = [run.load for run in self._counted]
        return Load(
            _median([load.generator for load in loads]),
            _median([load.provider for load in loads]),
            _median([load.router for load in loads]),
        )


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else math.nan
