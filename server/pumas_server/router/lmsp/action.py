"""The two things that can be done to a model of the catalogue."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """What can be done to a model. Its word ends the path."""

    LOAD = "load"
    UNLOAD = "unload"
