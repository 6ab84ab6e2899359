"""One machine that serves manifests: the local counterpart of operator and Kubernetes together.

Each model is refused, or answered for by an external server, or run as a pod of the very Deployment
that a cluster would get. Whatever a pod reports goes through the operator's own status function
into the source that the router watches.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import BUILT_IN_DEFAULT, ServingProfile
from pumas_crds.vocabulary import DEFAULT_PROFILE, ENGINE_KEY_FILE, SPEC_HASH_ANNOTATION
from pumas_local.kubelet import Kubelet, LocalPod
from pumas_local.manifest_files import Manifests
from pumas_local.pod import LOOPBACK, Deployment
from pumas_local.source import LocalSource
from pumas_operator import names
from pumas_operator.acceptance import build_refusal
from pumas_operator.manifests import (
    Settings,
    build_deployment,
    spec_hash,
)
from pumas_operator.observation import Observed, PodObservation
from pumas_operator.status import build_status
from pumas_server.router.source import EXTERNAL_UID, Endpoint, ModelRecord

#: No image is pulled here: a container's `python` is this interpreter. No router has to be told
#: that a pod goes, for the only one drains before.
SETTINGS = Settings(image="pumas-serving", propagation_seconds=0)

Clock = Callable[[], datetime]


@dataclass(slots=True)
class _Row:
    """One model, what is observed of it, and its pod if it has one."""

    model: ServedModel
    observed: Observed
    deployment: Deployment | None
    spec_hash: str
    api_key: str
    pod: LocalPod | None = None

    def record(self) -> ModelRecord:
        return ModelRecord(self.model, self.spec_hash, tuple(self._endpoints()))

    def _endpoints(self) -> Iterable[Endpoint]:
        spec = self.model.spec
        if spec.endpoint is not None and self.observed.refused is None and not spec.suspend:
            url = spec.endpoint.root()
            yield Endpoint(uid=EXTERNAL_UID, url=url, supervisor_url=None, ready=True)
        if self.pod is not None and self.pod.ports and not self.pod.observation.terminating:
            yield Endpoint(
                uid=self.pod.observation.uid,
                url=f"http://{LOOPBACK}:{self.pod.ports.engine}",
                supervisor_url=f"http://{LOOPBACK}:{self.pod.ports.supervisor}",
                ready=self.pod.observation.ready,
                api_key=self.api_key,
            )


class Node:
    """Runs the models of `manifests` below `data`, and tells `source` about them."""

    def __init__(
        self, manifests: Manifests, data: Path, clock: Clock = lambda: datetime.now(UTC)
    ) -> None:
        self.source = LocalSource()
        self._kubelet = Kubelet(data)
        self._clock = clock
        self._rows = _build_rows(manifests)
        self._refresh(*self._rows)

    @property
    def unlisted(self) -> tuple[ServedModel, ...]:
        """Models whose alias and profile an earlier document has: neither listed nor run."""
        return tuple(row.model for row in self._rows if row.observed.duplicate)

    async def start(self) -> None:
        """Start all pods; return when the first process of each runs, whatever becomes of it."""
        await asyncio.gather(
            *(self._run(row, row.deployment) for row in self._rows if row.deployment)
        )

    async def stop(self) -> None:
        """End all pods at once, each within its grace period."""
        for row in self._rows:
            row.observed = replace(row.observed, desired_replicas=0)
        await asyncio.gather(*(row.pod.stop() for row in self._rows if row.pod))
        for row in self._rows:
            row.pod = None
            row.observed = replace(row.observed, pods=())
        self._refresh(*self._rows)

    async def _run(self, row: _Row, deployment: Deployment) -> None:
        secret = {names.engine_key_secret(row.model.metadata.name): {ENGINE_KEY_FILE: row.api_key}}

        def report(observation: PodObservation) -> None:
            row.observed = replace(row.observed, pods=(observation,))
            self._refresh(row)

        row.pod = self._kubelet.create(deployment, secret, report)
        report(row.pod.observation)
        await row.pod.start()

    def _refresh(self, *rows: _Row) -> None:
        for row in rows:
            status = build_status(row.model, row.observed, self._clock())
            row.model = row.model.model_copy(update={"status": status})
        self.source.publish(tuple(row.record() for row in self._rows if not row.observed.duplicate))


def _build_rows(manifests: Manifests) -> list[_Row]:
    """Decide for each model whether it is run and from what."""
    profiles = {DEFAULT_PROFILE: BUILT_IN_DEFAULT}
    profiles |= {profile.metadata.name: profile for profile in manifests.profiles}
    identities: set[tuple[str, str]] = set()
    rows = []
    for model in manifests.models:
        identity = (model.alias, model.profile)
        rows.append(_build_row(model, profiles, duplicate=identity in identities))
        identities.add(identity)
    return rows


def _build_row(
    model: ServedModel, profiles: Mapping[str, ServingProfile], *, duplicate: bool
) -> _Row:
    profile = profiles.get(model.profile)
    observed = Observed(
        profile_found=profile is not None,
        duplicate=duplicate,
        refused=build_refusal(model.spec, profile, local=True) if profile else None,
        external=model.spec.endpoint is not None,
    )
    key = secrets.token_urlsafe(32)
    runs = not (duplicate or observed.refused or observed.external)
    if profile is None or not runs:
        digest = spec_hash(model.spec.model_dump(mode="json", by_alias=True))
        return _Row(model, replace(observed, spec_hash=digest), None, digest, key)
    deployment = Deployment.model_validate(build_deployment(model, profile, SETTINGS))
    digest = deployment.spec.template.metadata.annotations[SPEC_HASH_ANNOTATION]
    wanted = deployment if deployment.spec.replicas else None
    return _Row(model, replace(observed, spec_hash=digest), wanted, digest, key)
