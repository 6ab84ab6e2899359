"""Records of requests that carry an Idempotency-Key: the claim on a key, and the answer to it.

A key belongs to a principal. It is claimed by making its record, which of two comers one alone can
do; the claim has a deadline, so that one whose router died is free again; and an answer that was
stored is given again, whatever is true by then, until its record is a day old.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

#: How long an answer is given again.
KEPT_SECONDS = 86_400
#: How long a router may take to answer before its claim is nobody's: longer than any of it takes.
CLAIM_SECONDS = 30


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer as it was given first."""

    status: int
    body: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The key is ours: do it, then `store` or `release` under this token."""

    token: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """It was done: give this answer."""

    answer: StoredAnswer


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another request of the same is at it."""


@dataclass(frozen=True, slots=True)
class Reused:
    """The key stands for something else."""


Claim = Claimed | Replayed | InProgress | Reused


class RecordsUnavailable(Exception):
    """The records cannot be read or written now; nothing was done."""


class RequestRecords(Protocol):
    """Whoever keeps them."""

    async def claim(self, principal: str, key: str, fingerprint: str) -> Claim:
        """Claim a key for a request of that fingerprint. Raises `RecordsUnavailable`."""
        ...

    async def store(self, claim: Claimed, answer: StoredAnswer) -> None:
        """Keep the answer. Raises `RecordsUnavailable`; the claim then ends at its deadline."""
        ...

    async def release(self, claim: Claimed) -> None:
        """Give the key back: nothing came of it that has to be told again."""
        ...
