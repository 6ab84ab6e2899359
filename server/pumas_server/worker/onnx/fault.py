"""EngineFault: the engine's library could not load or run a model."""

from __future__ import annotations


class EngineFault(Exception):
    """The message is one sentence without places, fit to be shown."""
