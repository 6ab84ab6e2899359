"""An asynchronous server in a loop of its own, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def in_background(server: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """What the server's context yields, while its loop runs in a thread."""
    entered: Future[T] = Future()
    loop = asyncio.new_event_loop()
    leave = asyncio.Event()

    async def serve() -> None:
        async with server() as value:
            entered.set_result(value)
            await leave.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            try:
                runner.run(serve())
            except BaseException as error:
                if entered.done():
                    raise
                entered.set_exception(error)

    thread = threading.Thread(target=run, name="background")
    thread.start()
    try:
        yield entered.result(30)
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(leave.set)
        thread.join(30)
