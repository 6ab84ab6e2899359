"""Where in a request the next byte of a caller's connection belongs."""

from __future__ import annotations

from enum import Enum, auto


class ConnectionPhase(Enum):
    """Where in a request the next byte belongs."""

    BETWEEN = auto()
    HEADER = auto()
    BODY = auto()
    DEAF = auto()
    """Whatever comes is thrown away: the connection is to close."""
