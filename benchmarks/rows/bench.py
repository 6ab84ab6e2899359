"""What the rows of the router share: the ways, how to load them, how often, and what was void."""

from __future__ import annotations

from dataclasses import dataclass, field

from load.generators import Generators
from load.processes import Way
from load.runs import Runs


@dataclass(frozen=True)
class Bench:
    """One run of all rows."""

    generators: Generators
    ways: dict[str, Way]
    rounds: int
    void: list[str] = field(default_factory=list)
    """Why runs were not counted."""

    def runs(self, what: str, way: Way) -> Runs:
        """Of one measurement."""
        return Runs(f"{what}, {way.name}", self.void, may_saturate=way.is_provider)
