"""Balance: which of a model's pods a call is sent to.

The one with the fewest calls in flight; among equals the one whose last call is the longest ago,
so that idle pods take turns. One that had none yet comes first of all, in an order that differs
from router to router, or each of them would begin with the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from zlib import crc32

from pumas_server.router.catalog_row import Target

#: Pods whose last turn is remembered: more than any cluster has, and pods come and go.
_REMEMBERED = 8192


class Balance:
    """The turns of one router process. `salt` is what makes its first choices its own."""

    def __init__(self, salt: int) -> None:
        self._salt = salt
        self._turn = count(1)
        self._turns: dict[str, int] = {}
        """The last turn of each endpoint URL, the oldest first."""

    def order(self, targets: Iterable[Target], busy: Mapping[str, int]) -> list[Target]:
        """The pods, best first. `busy` counts calls in flight by endpoint URL."""
        return sorted(
            targets, key=lambda t: (busy.get(t.endpoint.url, 0), self._last_turn(t.endpoint.url))
        )

    def took(self, url: str) -> None:
        """A call is sent there."""
        self._turns.pop(url, None)
        self._turns[url] = next(self._turn)
        if len(self._turns) > _REMEMBERED:
            del self._turns[next(iter(self._turns))]

    def _last_turn(self, url: str) -> int:
        turn = self._turns.get(url)
        return turn if turn is not None else -1 - crc32(url.encode(), self._salt)
