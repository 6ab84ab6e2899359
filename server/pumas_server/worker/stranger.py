"""Whether somebody else already is where the engine is to listen.

A call there would reach that program with the engine's key, and its answers would pass for the
engine's.
"""

from __future__ import annotations

import asyncio

CONNECT_SECONDS = 1.0


async def is_taken(host: str, port: int) -> bool:
    """Whether a program listens there now."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
