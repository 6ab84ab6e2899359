"""Work that grows with a body: on a thread once the body is long, so that other calls go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from pumas_server.router.sessions import Session

#: A body that takes some milliseconds to be read. Changing threads costs less than one.
LONG_BYTES = 1_048_576

Done = TypeVar("Done")


async def at_length(session: Session, size: int, work: Callable[[], Done]) -> Done:
    """The result of `work` on `size` bytes. Raises `SessionEnded` when the session ends meanwhile;

    a thread that works on then is left to finish, and what it finds is forgotten.
    """
    if size < LONG_BYTES:
        return work()
    with session.interruptible():
        return await asyncio.to_thread(work)
