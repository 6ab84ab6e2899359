"""Signals that stop a process which serves: the first asks, a second one does not wait."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals(stop: asyncio.Event) -> Iterator[None]:
    """Within the block the first signal sets `stop`, and a second one cancels the current task."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()

    def asked() -> None:
        if stop.is_set() and main is not None:
            main.cancel()
        stop.set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, asked)
    try:
        yield
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
