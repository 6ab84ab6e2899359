"""The ModelSource of a cluster: ServedModels and EndpointSlices, followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from pumas_crds.vocabulary import GROUP, MODEL_UID_LABEL, VERSION
from pumas_server.router.cluster_access import ClusterAccess
from pumas_server.router.cluster_follower import Follower, Json
from pumas_server.router.cluster_records import Reading, build_records, read_model
from pumas_server.router.source import ModelRecord

T = TypeVar("T")

_MODELS = (f"/apis/{GROUP}/{VERSION}", "servedmodels", "")
_SLICES = ("/apis/discovery.k8s.io/v1", "endpointslices", MODEL_UID_LABEL)


class ClusterSource:
    """Implements `pumas_server.router.source.ModelSource` over the Kubernetes API."""

    def __init__(self, access: ClusterAccess, namespaces: Sequence[str], secret: bytes) -> None:
        """Of the given namespaces, or of all; `secret` is what engine keys are derived from."""
        self._access = access
        self._namespaces = tuple(namespaces)
        self._secret = secret

    async def watch(self) -> AsyncIterator[tuple[ModelRecord, ...]]:
        """Yield the whole listing once everything was listed, then after every change of it.

        Nothing is yielded before: a part of the models would look like all of them.
        """
        changed = asyncio.Event()
        models = self._followers(*_MODELS, read_model, changed)
        slices = self._followers(*_SLICES, _slim, changed)
        everyone: tuple[Follower[Reading] | Follower[Json], ...] = (*models, *slices)
        tasks = [asyncio.create_task(f.run(), name=f"follow {f.path}") for f in everyone]
        told: tuple[ModelRecord, ...] | None = None
        try:
            while True:
                await changed.wait()
                changed.clear()
                if not all(follower.listed for follower in everyone):
                    continue
                records = build_records(
                    (model for follower in models for model in follower.objects.values()),
                    (piece for follower in slices for piece in follower.objects.values()),
                    self._secret,
                )
                if records != told:
                    told = records
                    yield records
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _followers(
        self,
        group: str,
        plural: str,
        selector: str,
        read: Callable[[Json], T],
        changed: asyncio.Event,
    ) -> tuple[Follower[T], ...]:
        paths = [f"{group}/namespaces/{name}/{plural}" for name in self._namespaces]
        return tuple(
            Follower(self._access, path, selector, read, changed.set)
            for path in paths or [f"{group}/{plural}"]
        )


def _slim(piece: Json) -> Json:
    """Without the record of who wrote which field: most of an object, and nobody reads it."""
    metadata = {k: v for k, v in piece["metadata"].items() if k != "managedFields"}
    return {**piece, "metadata": metadata}
