"""RequestRecords in memory: for one router process, and as long as that lives.

Records are kept in the order in which they were claimed, so the oldest, which go first, stand
first. When there is no room for another one a new key is refused; a stored answer is never given up
before its day is over.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from pumas_server.router.lmsp.request_records import (
    CLAIM_SECONDS,
    KEPT_SECONDS,
    Claim,
    Claimed,
    InProgress,
    RecordsUnavailable,
    Replayed,
    Reused,
    StoredAnswer,
)

#: Records that are held at once: a key has at most 255 characters and an answer a few kilobytes.
MAX_RECORDS = 10_000

_Place = tuple[str, str]


@dataclass(slots=True)
class _Record:
    fingerprint: str
    token: str
    claimed_at: float
    answer: StoredAnswer | None = None


class MemoryRecords:
    """Implements `RequestRecords`."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, max_records: int = MAX_RECORDS
    ) -> None:
        self._clock = clock
        self._max_records = max_records
        self._records: OrderedDict[_Place, _Record] = OrderedDict()
        self._places: dict[str, _Place] = {}
        self._tokens = itertools.count(1)

    async def claim(self, principal: str, key: str, fingerprint: str) -> Claim:
        """See `RequestRecords`."""
        now = self._clock()
        self._drop_old(now)
        place = (principal, key)
        known = self._records.get(place)
        if known is not None:
            dead = known.answer is None and now >= known.claimed_at + CLAIM_SECONDS
            if not dead:
                return _standing(known, fingerprint)
            self._drop(place)
        if len(self._records) >= self._max_records:
            raise RecordsUnavailable(
                f"{len(self._records)} keys are kept, and at most {self._max_records} may be"
            )
        token = str(next(self._tokens))
        self._records[place] = _Record(fingerprint, token, now)
        self._places[token] = place
        return Claimed(token)

    async def store(self, claim: Claimed, answer: StoredAnswer) -> None:
        """See `RequestRecords`. A claim that has become another's stores nothing."""
        place = self._places.get(claim.token)
        if place is not None:
            self._records[place].answer = answer

    async def release(self, claim: Claimed) -> None:
        """See `RequestRecords`."""
        place = self._places.get(claim.token)
        if place is not None:
            self._drop(place)

    def _drop_old(self, now: float) -> None:
        while self._records:
            place, oldest = next(iter(self._records.items()))
            if now < oldest.claimed_at + KEPT_SECONDS:
                return
            self._drop(place)

    def _drop(self, place: _Place) -> None:
        del self._places[self._records.pop(place).token]


def _standing(known: _Record, fingerprint: str) -> Claim:
    """What a record that holds says to another request with its key."""
    if known.fingerprint != fingerprint:
        return Reused()
    return InProgress() if known.answer is None else Replayed(known.answer)
