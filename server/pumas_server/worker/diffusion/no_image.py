"""Why a pipeline that ran has no image to show."""

from __future__ import annotations


class NoImage(Exception):
    """What was computed is no image; the message says where that was seen."""


class NotFinite(NoImage):
    """A result holds a number that is none, or infinity."""
