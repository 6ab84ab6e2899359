"""SIGHUP: read the manifests again; or stop, when it means that the terminal has gone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pumas_local.manifest_files import ManifestError, read_manifests
from pumas_local.node import Node

logger = logging.getLogger(__name__)


@contextmanager
def hangups(manifests: Sequence[Path], node: Node, stop: asyncio.Event) -> Iterator[None]:
    """Within the block SIGHUP has the node serve what the files say now; one turn after another.

    Files that cannot be read are complained of, and change nothing.
    """
    turns: set[asyncio.Task[None]] = set()
    turn = asyncio.Lock()
    had_terminal = _has_terminal()

    async def reread() -> None:
        async with turn:
            try:
                read = read_manifests(manifests)
            except ManifestError as error:
                logger.warning("the manifests stay as they were read before: %s", error)
                return
            await node.reload(read)
            logger.warning("the manifests were read again")
            for model in node.unlisted:
                # The catalogue tells nothing of it, so nothing else may change.
                told = model.status.error.message if model.status.error else ""
                logger.warning("%s is not served: %s", model.metadata.name, told)

    def on_signal() -> None:
        if had_terminal and not _has_terminal():
            stop.set()
            return
        task = asyncio.create_task(reread())
        turns.add(task)
        task.add_done_callback(turns.discard)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, on_signal)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in turns:
            task.cancel()


def _has_terminal() -> bool:
    try:
        return os.isatty(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
