"""Tasks that go on beside the requests and end only by being cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine

_log = logging.getLogger(__name__)


def start(work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
    """Start one. If it fails, what it keeps true goes stale: the log says so at once."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s failed", task.get_name(), exc_info=error)
