"""The in-memory ModelSource: one listing, replaced as a whole, with any number of watchers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pumas_server.router.source import ModelRecord


class LocalSource:
    """Implements `pumas_server.router.source.ModelSource`."""

    def __init__(self) -> None:
        self._records: tuple[ModelRecord, ...] = ()
        self._replaced = asyncio.Event()

    def publish(self, records: tuple[ModelRecord, ...]) -> None:
        """Replace the listing, and wake the watchers if it changed."""
        if records != self._records:
            self._records = records
            replaced, self._replaced = self._replaced, asyncio.Event()
            replaced.set()

    async def watch(self) -> AsyncIterator[tuple[ModelRecord, ...]]:
        """Yield the present listing at once, then the newest one after every change."""
        while True:
            # Taken before the listing is handed out: a change that comes while the consumer works
            # sets this very event, and several of them set it once.
            replaced = self._replaced
            yield self._records
            await replaced.wait()
