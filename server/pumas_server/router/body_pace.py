"""How slowly a request's body may come: neither in silence nor in drops. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BodyPace:
    """A body that is on its way. Times are seconds of one clock."""

    silence: float
    """How long nothing may come."""
    least_rate: float
    """Bytes a second, over the whole of it, after a first `silence`."""
    began: float
    last: float
    received: int = 0

    def came(self, count: int, now: float) -> None:
        """Some more bytes."""
        self.received += count
        self.last = now

    def excuse(self, now: float) -> None:
        """Begin anew: it was we who did not read."""
        self.began = self.last = now
        self.received = 0

    def late_at(self) -> float:
        """When it is too late, unless more comes before."""
        patience = self.began + self.silence + self.received / self.least_rate
        return min(self.last + self.silence, patience)
