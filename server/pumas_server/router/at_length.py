"""Work that grows with a body: on a thread once the body is long, so that other calls go on.

For what lets the interpreter go, as the joining of bytes does; reading does not (`long_bodies`).
Changing threads costs less than a millisecond.
There are two such threads. Long bodies wait for each other, and nobody waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pumas_server.router.growing_body import LONG_BYTES
from pumas_server.router.niceness import step_back
from pumas_server.router.sessions import Session

Done = TypeVar("Done")

_THREADS = ThreadPoolExecutor(2, "at-length", initializer=step_back)


async def at_length(session: Session, size: int, work: Callable[[], Done]) -> Done:
    """The result of `work` on `size` bytes. Raises `SessionEnded` when the session ends meanwhile;

    a thread that works on then is left to finish, and what it finds is forgotten.
    """
    if size < LONG_BYTES:
        return work()
    with session.interruptible():
        return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
