"""The queue of keys to reconcile: each at most once, one at a time, later when it failed.

Adding a key that waits already changes nothing; adding one that is being worked on brings it back
when that is done. So any number of events about one model is one reconciliation, or two.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0


class KeyedQueue(Generic[K]):
    """Keys, in the order in which they were added."""

    def __init__(self) -> None:
        self._waiting: deque[K] = deque()
        self._known: set[K] = set()
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._later: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        """Keys that wait or are being worked on."""
        return len(self._waiting) + len(self._running)

    def add(self, key: K) -> None:
        """Reconcile the key as soon as may be."""
        timer = self._later.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._known:
            self._known.add(key)
            self._waiting.append(key)
            self._filled.set()

    def add_later(self, key: K, seconds: float) -> None:
        """Reconcile the key after that time, unless it is sooner for another reason."""
        loop = asyncio.get_running_loop()
        before = self._later.get(key)
        if before is not None:
            if before.when() <= loop.time() + seconds:
                return
            before.cancel()
        self._later[key] = loop.call_later(seconds, self.add, key)

    async def take(self) -> K:
        """The next key; `done` or `failed` must be called for it."""
        while not self._waiting:
            self._filled.clear()
            await self._filled.wait()
        key = self._waiting.popleft()
        self._known.discard(key)
        self._running.add(key)
        return key

    def done(self, key: K, again_seconds: float | None) -> None:
        """The key was reconciled; `again_seconds`: when to look again without an event."""
        self._failures.pop(key, None)
        self._finish(key, again_seconds)

    def failed(self, key: K) -> float:
        """The key could not be reconciled: it comes back, each time later; in how many seconds.

        At once, and the answer is 0, if it was added meanwhile.
        """
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(count, 10), LONGEST_PAUSE_SECONDS)
        pause *= random.uniform(0.75, 1.0)
        if key in self._again:
            pause = 0.0
        self._finish(key, pause)
        return pause

    def hasten(self) -> None:
        """Reconcile at once what has failed and waits for its next attempt."""
        for key in self._failures.keys() & self._later.keys():
            self.add(key)

    def close(self) -> None:
        """Let no timer fire any more."""
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()

    def _finish(self, key: K, again_seconds: float | None) -> None:
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif again_seconds is not None:
            self.add_later(key, again_seconds)
