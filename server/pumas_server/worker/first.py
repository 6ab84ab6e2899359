"""Wait for the first of several coroutines and leave none of the others behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def first(*coroutines: Coroutine[Any, Any, T]) -> T:
    """The result, or the exception, of whichever ends first; the others are cancelled and awaited.

    When several have ended, the one that was named first counts.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return next(task for task in tasks if task in done).result()
