"""Loads and unloads that somebody asks for in so many words.

What is asked for is a state and not a deed: it is written as the number of pods that are wanted, on
the version of the model that was looked at, and whoever writes last is right. Both may be asked any
number of times.
"""

from __future__ import annotations

from pumas_crds.vocabulary import LoadState, Runtime
from pumas_server.router.catalog import Catalog
from pumas_server.router.catalog_row import Row
from pumas_server.router.lmsp.load_control import ModelGone, NotLoadable
from pumas_server.router.steering import Outdated, Steering, Unsteerable
from pumas_server.router.wake import wanted_replicas
from pumas_server.router.workers import Workers

#: How often somebody else may be faster before that is an answer.
_ATTEMPTS = 10
#: How long to wait for what another has changed to be seen here.
_AGAIN_SECONDS = 1.0


class Loading:
    """Implements `pumas_server.router.lmsp.load_control.LoadControl`."""

    def __init__(self, workers: Workers, steering: Steering) -> None:
        self._workers = workers
        self._steering = steering

    async def load(self, model_uid: str) -> LoadState:
        """See `LoadControl.load`. A model that failed is tried once more."""
        for _ in range(_ATTEMPTS):
            catalog, row = self._look(model_uid)
            _require_ours(row, "loaded")
            if row.model.spec.suspend:
                raise NotLoadable("the model is suspended (spec.suspend)")
            if row.load_state is LoadState.LOADED and row.model.spec.replicas:
                return LoadState.LOADED
            if row.load_state is LoadState.FAILED:
                await self._steering.ask_again(row.model)
            else:
                await self._steering.renew(row.model)
            if row.model.spec.replicas or await self._scaled(catalog, row, wanted_replicas(row)):
                return LoadState.LOADING
        raise Unsteerable("the model keeps changing")

    async def unload(self, model_uid: str) -> LoadState:
        """See `LoadControl.unload`."""
        for _ in range(_ATTEMPTS):
            catalog, row = self._look(model_uid)
            _require_ours(row, "unloaded")
            rests = row.model.spec.replicas == 0
            if rests or await self._scaled(catalog, row, 0):
                return _after_unload(row)
        raise Unsteerable("the model keeps changing", begun=False)

    def _look(self, model_uid: str) -> tuple[Catalog, Row]:
        catalog = self._workers.catalog
        row = catalog.by_uid(model_uid)
        if row is None:
            raise ModelGone
        return catalog, row

    async def _scaled(self, seen: Catalog, row: Row, replicas: int) -> bool:
        try:
            await self._steering.scale(row.model, replicas)
        except Outdated:
            await self._workers.changed(seen, _AGAIN_SECONDS)
            return False
        return True


def _require_ours(row: Row, done: str) -> None:
    if row.model.spec.runtime is Runtime.EXTERNAL:
        raise NotLoadable(f"the model's server is not ours, so it cannot be {done} here")


def _after_unload(row: Row) -> LoadState:
    """What to show of a model of which no pod is wanted any more."""
    if row.load_state is LoadState.FAILED:
        return LoadState.FAILED
    going = row.load_state is not LoadState.UNLOADED or row.model.status.replicas > 0
    return LoadState.UNLOADING if going else LoadState.UNLOADED
