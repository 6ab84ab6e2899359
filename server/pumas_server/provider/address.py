"""Whom a forwarded body is for, and where it says so: all that is kept of what was read in it."""

from __future__ import annotations

import json
from typing import NamedTuple

#: The bytes of a body. A view is of one that is long.
Body = bytes | memoryview


class Address(NamedTuple):
    """The two members of a body that a router needs, and the bytes in which the first stands."""

    model: str
    stream: bool
    """Whether it asks for an event stream."""
    start: int
    end: int
    in_json: bool = True
    """Otherwise the model is written as it is."""

    def rewrite(self, raw: Body, model: str) -> tuple[Body, Body, Body]:
        """The body, of which this is the address, with another `model`, in three parts.

        No other byte changes.
        """
        written = json.dumps(model) if self.in_json else model
        return raw[: self.start], written.encode(), raw[self.end :]
