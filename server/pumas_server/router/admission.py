"""Permits: how many calls are admitted at once, by the process and by each pod.

Capacity is borrowed around a call and comes back when the block ends, whatever ended it. Borrowing
is a try: it never waits, so nothing queues in the router and a refusal is immediate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pumas_server.contract.errors import Code, ContractError


@dataclass(slots=True)
class Admission:
    """The permits of one router process."""

    max_in_flight: int
    in_flight: int = 0
    by_pod: dict[str, int] = field(default_factory=dict)
    """Calls in flight by endpoint URL; an endpoint without calls is not in it."""

    @contextmanager
    def process_permit(self) -> Iterator[None]:
        """One of the process's permits. Raises `ContractError` (503) when none is left."""
        if self.in_flight >= self.max_in_flight:
            raise ContractError(
                Code.CAPABILITY_UNAVAILABLE,
                f"all {self.max_in_flight} calls that this router admits are in flight",
            )
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def has_pod_permit(self, url: str, limit: int) -> bool:
        """Whether `pod_permit` would be granted now."""
        return self.by_pod.get(url, 0) < limit

    @contextmanager
    def pod_permit(self, url: str) -> Iterator[None]:
        """One call of a pod's. Ask `has_pod_permit` first, without awaiting in between."""
        self.by_pod[url] = self.by_pod.get(url, 0) + 1
        try:
            yield
        finally:
            left = self.by_pod[url] - 1
            if left:
                self.by_pod[url] = left
            else:
                del self.by_pod[url]


@dataclass(slots=True)
class BufferBudget:
    """Bytes that the process holds in request bodies and finite answers."""

    limit: int
    held: int = 0

    @contextmanager
    def lease(self) -> Iterator[BufferLease]:
        """A lease that grows while a body is read, and gives all of it back at its end."""
        lease = BufferLease(self)
        try:
            yield lease
        finally:
            self.held -= lease.held


@dataclass(slots=True)
class BufferLease:
    """What one call holds."""

    _budget: BufferBudget
    held: int = 0

    def grow(self, count: int) -> bool:
        """Take `count` bytes more; False, and nothing taken, when the budget is spent."""
        if self._budget.held + count > self._budget.limit:
            return False
        self._budget.held += count
        self.held += count
        return True
