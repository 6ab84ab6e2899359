"""One machine that serves manifests: the local counterpart of operator and Kubernetes together.

Each model is refused, or answered for by an external server, or run as a pod of the very Deployment
that a cluster would get. Whatever a pod reports goes through the operator's own status function
into the source that the router watches, and the operator's own rule puts models to rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pumas_crds.demand import RENEW_SECONDS
from pumas_crds.resource import ObjectMeta
from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import BUILT_IN_DEFAULT, ServingProfile
from pumas_crds.vocabulary import DEFAULT_PROFILE, LoadState
from pumas_local.descriptor import read_descriptor
from pumas_local.kubelet import Kubelet
from pumas_local.local_model import LocalModel, build_workload
from pumas_local.manifest_files import Manifests
from pumas_local.source import LocalSource
from pumas_operator.acceptance import build_refusal
from pumas_operator.observation import Observed
from pumas_operator.rest import Uses
from pumas_operator.status import build_status
from pumas_server.router.steering import Outdated

Clock = Callable[[], datetime]


class Node:
    """Runs the models of `manifests` below `data`, and tells `source` about them.

    Implements `pumas_server.router.steering.Steering`.
    """

    def __init__(
        self,
        manifests: Manifests,
        data: Path,
        clock: Clock = lambda: datetime.now(UTC),
        uses: Uses | None = None,
    ) -> None:
        self.source = LocalSource()
        self._kubelet = Kubelet(data)
        self._clock = clock
        self._uses = uses or Uses()
        self._models = self._build(manifests)
        self._resting: asyncio.Task[None] | None = None
        self._tell(*self._models)

    @property
    def unlisted(self) -> tuple[ServedModel, ...]:
        """Models whose alias and profile an earlier document has: neither listed nor run."""
        return tuple(each.model for each in self._models if each.observed.duplicate)

    @property
    def empty(self) -> bool:
        """Whether the manifests hold no model at all."""
        return not self._models

    async def start(self) -> None:
        """Start all pods; return when the first process of each runs, whatever becomes of it."""
        await asyncio.gather(*(each.start() for each in self._models))
        self._resting = asyncio.create_task(self._keep_resting())

    async def reload(self, manifests: Manifests) -> None:
        """Serve what these manifests say. What they say as before goes on as it is.

        What is gone or changed ends first, within its grace period: there may be room for one.
        """
        before = {_key(each.model): each for each in self._models}
        models = []
        for fresh in self._build(manifests):
            old = before.get(_key(fresh.model))
            models.append(old if old is not None and old.is_as(fresh) else fresh)
        kept = {id(each) for each in models}
        ended = [each for each in self._models if id(each) not in kept]
        started = [each for each in models if each not in self._models]
        self._models = models
        self._tell(*started)
        await asyncio.gather(*(each.stop() for each in ended))
        await asyncio.gather(*(each.start() for each in started))

    async def stop(self) -> None:
        """End all pods at once, each within its grace period."""
        if self._resting is not None:
            self._resting.cancel()
        await asyncio.gather(*(each.stop() for each in self._models))
        self._tell(*self._models)

    async def scale(self, model: ServedModel, replicas: int) -> None:
        """See `Steering.scale`."""
        self._steer(self._as_read(model), replicas)

    async def renew(self, model: ServedModel) -> None:
        """See `Steering.renew`."""
        self._uses.wanted(model.metadata.uid)

    async def ask_again(self, model: ServedModel) -> None:
        """See `Steering.ask_again`: the file is read again."""
        self._uses.wanted(model.metadata.uid)
        found = self._find(model)
        failed = found is not None and found.model.status.load_state is LoadState.FAILED
        if found is not None and failed:
            found.steer(found.model, anew=True)

    def _find(self, model: ServedModel) -> LocalModel | None:
        uid = model.metadata.uid
        return next((each for each in self._models if each.model.metadata.uid == uid), None)

    def _as_read(self, model: ServedModel) -> LocalModel:
        """The model, if it still is as it was read. Raises `Outdated`."""
        found = self._find(model)
        version = model.metadata.resource_version
        if found is None or found.model.metadata.resource_version != version:
            raise Outdated
        return found

    def _steer(self, found: LocalModel, replicas: int) -> None:
        """Another number of replicas: another generation, as the API server would make of it."""
        model = found.model
        if model.spec.replicas != replicas:
            spec = model.spec.model_copy(update={"replicas": replicas})
            metadata = _next(model.metadata, generation=model.metadata.generation + 1)
            found.steer(model.model_copy(update={"spec": spec, "metadata": metadata}))
            self._tell(found)

    async def _keep_resting(self) -> None:
        while True:
            waits = [await self._rest(each) for each in self._models]
            known = [seconds for seconds in waits if seconds is not None]
            await asyncio.sleep(min(max(min(known, default=RENEW_SECONDS), 0.1), RENEW_SECONDS))

    async def _rest(self, found: LocalModel) -> float | None:
        """Put a model to rest if that is due; else in how many seconds it may be due."""
        model = found.model
        seconds = self._uses.seconds_to_rest(model, model.status)
        if seconds is None or seconds > 0:
            return seconds
        if model.status.load_state is LoadState.LOADED and await self._busy(found):
            self._uses.wanted(model.metadata.uid)
            return RENEW_SECONDS
        if found.model is model:
            self._steer(found, 0)
        return None

    async def _busy(self, found: LocalModel) -> bool:
        ports = found.pod.ports if found.pod is not None else None
        told = await read_descriptor(ports) if ports is not None else None
        return told is None or told.busy > 0

    def _tell(self, *models: LocalModel) -> None:
        """Compute what is true of them now, and publish it."""
        for each in models:
            status = build_status(each.model, each.observed, self._clock())
            if status != each.model.status:
                told = {"status": status, "metadata": _next(each.model.metadata)}
                each.model = each.model.model_copy(update=told)
        self.source.publish(
            tuple(each.record() for each in self._models if not each.observed.duplicate)
        )

    def _build(self, manifests: Manifests) -> list[LocalModel]:
        """Decide for each model whether it is run and from what."""
        profiles = {DEFAULT_PROFILE: BUILT_IN_DEFAULT}
        profiles |= {profile.metadata.name: profile for profile in manifests.profiles}
        identities: set[tuple[str, str]] = set()
        built = []
        for model in manifests.models:
            identity = (model.alias, model.profile)
            built.append(self._one(model, profiles, duplicate=identity in identities))
            identities.add(identity)
        return built

    def _one(
        self, model: ServedModel, profiles: Mapping[str, ServingProfile], *, duplicate: bool
    ) -> LocalModel:
        profile = profiles.get(model.profile)
        observed = Observed(
            profile_found=profile is not None,
            duplicate=duplicate,
            refused=build_refusal(model.spec, profile, local=True) if profile else None,
            external=model.spec.endpoint is not None,
        )
        runs = not (duplicate or observed.refused or observed.external)
        workload = build_workload(model, profile) if profile is not None and runs else None
        return LocalModel(model, observed, workload, self._kubelet, self._tell)


def _key(model: ServedModel) -> tuple[str, str]:
    return model.metadata.namespace, model.metadata.name


def _next(metadata: ObjectMeta, **changes: int) -> ObjectMeta:
    """The metadata of the next version of an object."""
    version = str(int(metadata.resource_version or "0") + 1)
    return metadata.model_copy(update={"resource_version": version, **changes})
