"""How a check that runs in a thread is told to stop: it asks between slices and between files."""

from __future__ import annotations

from collections.abc import Callable

#: Called between slices of work; raises `Stopped`.
Checkpoint = Callable[[], None]

#: Bytes that one call into C works on, where the call can be cut: a fraction of a millisecond.
SLICE = 65_536


class Stopped(Exception):
    """Nobody wants the result any more."""


def build_checkpoint(stopped: Callable[[], bool]) -> Checkpoint:
    """A checkpoint that asks `stopped`, such as the `is_set` of a `threading.Event`."""

    def checkpoint() -> None:
        if stopped():
            raise Stopped

    return checkpoint
