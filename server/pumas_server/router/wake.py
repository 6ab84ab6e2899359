"""What a load has to do next, from the model as it is now. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import LoadState, Reason
from pumas_server.router.catalog_row import Row


@dataclass(frozen=True, slots=True)
class Awake:
    """It can be called."""

    row: Row


@dataclass(frozen=True, slots=True)
class Wait:
    """It is on its way, or what was asked for has not been seen yet."""


@dataclass(frozen=True, slots=True)
class Scale:
    """It is at rest: so many pods are to be wanted."""

    row: Row
    replicas: int


@dataclass(frozen=True, slots=True)
class Fails:
    """It does not come to serve."""

    fault: Fault


Step = Awake | Wait | Scale | Fails

GONE = Fault(reason=Reason.NO_ENDPOINT, message="The model was deleted.")
UNLOADED = Fault(reason=Reason.SCALED_TO_ZERO, message="The model was unloaded while it loaded.")


def wanted_replicas(row: Row) -> int:
    """Pods that a load asks for: as many as were wanted last."""
    return max(1, row.model.status.last_replicas)


def decide_wake(row: Row | None, scaled_from: str | None) -> Step:
    """The next step of a load. `scaled_from`: the version of the model that it has changed.

    A write of ours makes the very next version, so any other than the changed one includes it.
    """
    if row is None:
        return Fails(GONE)
    if row.targets:
        return Awake(row)
    model = row.model
    if model.spec.suspend:
        return Fails(Fault(reason=Reason.SUSPENDED, message="The model is suspended."))
    if model.spec.replicas == 0:
        if scaled_from is None:
            permanent = row.load_state is LoadState.FAILED and row.error is not None
            return Fails(row.error) if permanent and row.error else Scale(row, wanted_replicas(row))
        if model.metadata.resource_version == scaled_from:
            return Wait()
        return Fails(row.error or UNLOADED)
    if row.load_state is LoadState.FAILED and row.error is not None:
        return Fails(row.error)
    return Wait()
