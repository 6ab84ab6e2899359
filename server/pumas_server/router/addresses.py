"""The addresses of names: one lookup of a name at a time, whoever waits for it.

Event loops look names up on a few threads. A name server that is silent would have all of them for
one provider's name, call after call, and every other name would wait behind it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from pumas_server.router.origin import Origin

#: As `getaddrinfo` gives it.
Address = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


class Addresses:
    """The lookups of one router process."""

    def __init__(self) -> None:
        self._running: dict[Origin, asyncio.Task[Sequence[Address]]] = {}

    async def find(self, origin: Origin) -> Sequence[Address]:
        """What an origin's host is now. Raises `OSError`, and `UnicodeError` for what is no name.

        A lookup goes on when whoever began it is cancelled: others may wait for it.
        """
        running = self._running.get(origin)
        if running is None:
            running = self._running[origin] = asyncio.create_task(_look_up(origin))
            running.add_done_callback(lambda _: self._running.pop(origin, None))
        return await asyncio.shield(running)

    def close(self) -> None:
        """Wait for none any more."""
        for running in tuple(self._running.values()):
            running.cancel()


async def _look_up(origin: Origin) -> Sequence[Address]:
    return await asyncio.get_running_loop().getaddrinfo(
        origin.host, origin.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
    )
