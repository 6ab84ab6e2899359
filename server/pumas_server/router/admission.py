"""Permits: how many calls are admitted at once, by the process, by each model and by each pod.

Capacity is borrowed around a call and comes back when the block ends, whatever ended it. Borrowing
is a try: it never waits, so nothing queues in the router and a refusal is immediate.

No model may keep the others out. A model that is not the only one is admitted while what it holds
is less than `share / (1 - share)` times what is free. So one model ends at its share of all
permits, with a share of 0.5 at half of them; while `n` models have taken all they can,
`(1 - share) ** n` of the permits are still free; and a model without a call in flight is admitted
while any permit is. The rule looks at levels alone and has no clock: what a hung model has taken
need not first be missed by somebody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.refusals import Reason, Refusals


def refuse_permit(held: int, free: int, share: float, *, alone: bool) -> Reason | None:
    """Why a model that holds `held` permits gets no other while `free` are left; None: it does.

    `share` is over 0 and at most 1, which bounds nobody. `alone` is the only model of the
    catalogue, which may have all.
    """
    if free <= 0:
        return Reason.MAX_IN_FLIGHT
    if not alone and held >= share * (held + free):
        return Reason.MODEL_SHARE
    return None


@dataclass(slots=True)
class Admission:
    """The permits of one router process."""

    max_in_flight: int
    share: float = 1.0
    """How much of them one model may hold beside others; see the module."""
    refusals: Refusals = field(default_factory=Refusals)
    in_flight: int = 0
    by_model: dict[str, int] = field(default_factory=dict)
    """Calls in flight by the model's uid; a model without calls is not in it."""
    by_pod: dict[str, int] = field(default_factory=dict)
    """Calls in flight by endpoint URL; an endpoint without calls is not in it."""

    def take(self, model_uid: str, *, alone: bool) -> None:
        """Take one of the process's permits for a call of a model; see `give_back`.

        Raises `ContractError` (503) when none is left, or none for this model.
        """
        held = self.by_model.get(model_uid, 0)
        free = self.max_in_flight - self.in_flight
        reason = refuse_permit(held, free, self.share, alone=alone)
        if reason is not None:
            self.refusals.count(reason)
            raise ContractError(Code.CAPABILITY_UNAVAILABLE, self._sentence(reason, held))
        self.in_flight += 1
        self.by_model[model_uid] = held + 1

    def give_back(self, model_uid: str) -> None:
        """Give back a permit that was taken for that model."""
        self.in_flight -= 1
        _less(self.by_model, model_uid)

    def has_pod_permit(self, url: str, limit: int) -> bool:
        """Whether a call of that pod's may be taken now."""
        return self.by_pod.get(url, 0) < limit

    def take_pod(self, url: str) -> None:
        """Take one call of a pod's. Ask `has_pod_permit` first, without awaiting in between."""
        self.by_pod[url] = self.by_pod.get(url, 0) + 1

    def give_back_pod(self, url: str) -> None:
        """Give back a call that was taken of that pod's."""
        _less(self.by_pod, url)

    def _sentence(self, reason: Reason, held: int) -> str:
        if reason is Reason.MODEL_SHARE:
            return (
                f"the model has {held} of the {self.max_in_flight} calls that this router admits"
                " in flight; what is left is for other models"
            )
        return f"all {self.max_in_flight} calls that this router admits are in flight"


def _less(counts: dict[str, int], key: str) -> None:
    """Count one less; what has none is not in it."""
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]


#: The last sixteenth of the budget is for calls that hold little: those with long bodies cannot
#: keep everybody else out.
RESERVED_PART = 16
SMALL_BYTES = 65_536


@dataclass(slots=True)
class BufferBudget:
    """Bytes that the process holds in request bodies and finite answers."""

    limit: int
    refusals: Refusals = field(default_factory=Refusals)
    held: int = 0

    def lease(self) -> BufferLease:
        """A lease that grows while a body is read; as a block, it gives all back at its end."""
        return BufferLease(self)


@dataclass(slots=True)
class BufferLease:
    """What one call holds."""

    _budget: BufferBudget
    held: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shrink(self.held)

    def grow(self, count: int) -> bool:
        """Take `count` bytes more; False, and nothing taken, when the budget is spent.

        For a lease over `SMALL_BYTES` it is spent when the reserve alone is left.
        """
        limit = self._budget.limit
        if self.held + count > SMALL_BYTES:
            limit -= limit // RESERVED_PART
        if self._budget.held + count > limit:
            return False
        self._budget.held += count
        self.held += count
        return True

    def shrink(self, count: int) -> None:
        """Give back `count` of the bytes that it holds."""
        self._budget.held -= count
        self.held -= count

    def refusal(self, code: Code) -> ContractError:
        """The error of a call that does not get the bytes it needs, counted."""
        self._budget.refusals.count(Reason.BUFFER)
        return ContractError(code, "the router holds as many bytes as it may")
