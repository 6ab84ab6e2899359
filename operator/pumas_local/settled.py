"""Whether anything about a model is still to be waited for. Pure."""

from __future__ import annotations

from pumas_crds.vocabulary import LoadState
from pumas_server.router.catalog_row import Row


def is_settled(row: Row) -> bool:
    """Whether the model serves, sleeps known, or failed."""
    sleeps = row.model.spec.replicas == 0 and row.facts.mode is not None
    failed = row.error is not None or row.load_state is LoadState.FAILED
    return bool(row.targets) or failed or (row.asleep and sleeps)
