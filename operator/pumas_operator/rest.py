"""When a model that is loaded on demand is put to rest. Pure, but for what it remembers.

Everything is counted by this operator's own clock, from the moments at which it saw something:
clocks of routers need not agree with it. What happened before it began to watch, or while a watch
was interrupted, counts as if it had happened just then; and for two renewals from then on no model
is put to rest, so that whoever uses one has been heard.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from pumas_crds.demand import RENEW_SECONDS
from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.vocabulary import PERMANENT_REASONS, LoadState, Reason

#: How long a model may fail to serve before it is put to rest with its fault.
FALL_BACK_SECONDS = 60.0
#: What a model may not be put to rest for: it waits for somebody else.
_WAITED_FOR = frozenset({Reason.UNSCHEDULABLE})


class Uses:
    """When models were wanted, and since when they serve or fail."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._watched_since = clock()
        self._wanted_at: dict[str, float] = {}
        self._since: dict[str, tuple[LoadState, float]] = {}

    def interrupted(self) -> None:
        """Something may have been missed until now."""
        self._watched_since = self._clock()

    def wanted(self, uid: str) -> None:
        """The model is used, or waited for, now."""
        self._wanted_at[uid] = self._clock()

    def forget(self, uid: str) -> None:
        """The model is gone."""
        self._wanted_at.pop(uid, None)
        self._since.pop(uid, None)

    def seconds_to_rest(self, model: ServedModel, status: ServedModelStatus) -> float | None:
        """In how many seconds the model may be put to rest, 0 for now; None while it may not.

        It may when it serves and nobody wanted it for `idleSeconds`, or when it has failed for a
        minute for a reason that may pass; never while it loads or waits for a node.
        """
        uid, now = model.metadata.uid, self._clock()
        state, since = self._since.get(uid, (None, now))
        if state is not status.load_state:
            state, since = status.load_state, now
            self._since[uid] = state, since
        activation = model.spec.effective_activation
        if not activation.on_demand or model.spec.desired_replicas == 0:
            return None
        if state is LoadState.LOADED:
            quiet_since = max(since, self._wanted_at.get(uid, since))
            heard_by = self._watched_since + 2 * RENEW_SECONDS
            return max(quiet_since + activation.idle_after, heard_by) - now
        if state is LoadState.FAILED and falls_back(status.error):
            return since + FALL_BACK_SECONDS - now
        return None


def falls_back(fault: Fault | None) -> bool:
    """Whether a fault may pass, so that the next load may come to serve."""
    return fault is not None and fault.reason not in PERMANENT_REASONS | _WAITED_FOR | {
        Reason.DUPLICATE_IDENTITY,
        Reason.NOT_OWNED,
        Reason.SUSPENDED,
    }
