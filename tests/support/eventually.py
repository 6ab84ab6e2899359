"""Waiting in a test: for a condition and with a deadline, never for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

DEADLINE_SECONDS = 20.0

T = TypeVar("T")


async def eventually(
    look: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS
) -> T:
    """What `look` returns once that is true; the event loop runs meanwhile."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        await asyncio.sleep(0.01)
    return found
