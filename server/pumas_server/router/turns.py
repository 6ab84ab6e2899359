"""Turns: who has much to read does it piece by piece, one piece of all of them between two looks.

An event loop reads from every socket that has something before it looks at anything else. Many long
bodies that arrive together would be some megabytes in one such round, and hold up every call.
"""

from __future__ import annotations

import asyncio


class Turns:
    """Those of one kind who take turns. Each that enters has to leave."""

    def __init__(self) -> None:
        self._inside = 0

    def enter(self) -> None:
        """Be one of them."""
        self._inside += 1

    def leave(self) -> None:
        """Be none of them any more."""
        self._inside -= 1

    async def turn(self) -> None:
        """Let each of them, and the loop in between, go first."""
        for _ in range(self._inside):
            await asyncio.sleep(0)
