"""Whom a forwarded body is for, and where it says so: all that is kept of what was read in it."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """The two members of a body that a router needs, and the bytes in which the first stands."""

    model: str
    stream: bool
    """Whether it asks for an event stream."""
    start: int
    end: int
    in_json: bool = True
    """Otherwise the model is written as it is."""

    def rewrite(self, raw: bytes, model: str) -> bytes:
        """The body, of which this is the address, with another `model`; no other byte changes."""
        written = json.dumps(model) if self.in_json else model
        return b"".join((raw[: self.start], written.encode(), raw[self.end :]))
