"""A wall clock that passes when told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ToldClock:
    """See the module."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
