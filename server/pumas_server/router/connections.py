"""Callers' connections: how many are open, how many may be, and what each may take its time for."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumas_server.router.lmsp.problems import PAGES
from pumas_server.router.refusals import Refusals

#: Connections beyond those that may be, kept until their callers have read why; others are cut.
MAX_BEYOND = 128


@dataclass(slots=True)
class Connections:
    """The connections of one router process, and their bounds. Times are seconds."""

    most: int
    header_seconds: float = 10.0
    """From the first byte of a request to the end of its header."""
    body_seconds: float = 30.0
    """How long nothing of a body may come."""
    body_rate: float = 16_384.0
    """Bytes of a body in a second, over the whole of it."""
    linger_seconds: float = 5.0
    """How long a caller that has its answer may go on sending before it is cut."""
    problem_pages: str = PAGES
    refusals: Refusals = field(default_factory=Refusals)
    open: int = 0
    beyond: int = 0
    """Of the open ones, those that were refused because there were too many."""

    @property
    def full(self) -> bool:
        """Whether more are open than may be; asked with the new one counted."""
        return self.open - self.beyond > self.most

    @property
    def may_tell(self) -> bool:
        """Whether one beyond those may stay for as long as it takes to say so."""
        return self.beyond < MAX_BEYOND
