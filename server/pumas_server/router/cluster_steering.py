"""Steering in a cluster: `/scale` of the model, and its demand Lease in the router's namespace.

A change of replicas names the version that was looked at, and the API server refuses it when the
model has changed since. The Lease belongs to no router: whoever has something to tell merges it in,
or makes the Lease when there is none. Its `renewTime` is written so that it changes; nobody
compares it with a clock.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

from pumas_crds.demand import (
    DEMAND,
    LOAD_REQUEST_ANNOTATION,
    PURPOSE_LABEL,
    RENEW_SECONDS,
    demand_lease,
)
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import (
    API_VERSION,
    MODEL_NAME_ANNOTATION,
    MODEL_NAMESPACE_ANNOTATION,
    MODEL_UID_LABEL,
    PART_OF_LABEL,
    PART_OF_VALUE,
)
from pumas_server.router.cluster_answers import (
    CONFLICT,
    MERGE_PATCH,
    NOT_FOUND,
    PLAIN,
    AnswerRefused,
    ApiObjects,
    Json,
    Unanswered,
    explain,
)
from pumas_server.router.leases import FIELD_MANAGER, build_lease, collection, utc_now
from pumas_server.router.steering import Outdated, Unsteerable

#: For people who look at the Lease: two renewals missed, and the model is not in use.
_LEASE_SECONDS = int(RENEW_SECONDS * 2)

_SCALE = "patch servedmodels/scale in the model's namespace"
_PATCH = "patch leases in its own namespace"
_CREATE = "create leases in its own namespace"


class ClusterSteering:
    """Implements `pumas_server.router.steering.Steering` over the Kubernetes API."""

    def __init__(
        self,
        api: ApiObjects,
        namespace: str,
        identity: str,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Demand is told in that namespace, the router's own, under that name, its pod's."""
        self._api = api
        self._leases = collection(namespace)
        self._identity = identity
        self._now = now

    async def scale(self, model: ServedModel, replicas: int) -> None:
        """Have so many pods wanted of the model as it was read.

        Raises `Outdated`, and then nothing was changed; raises `Unsteerable`.
        """
        metadata = model.metadata
        if not metadata.resource_version:
            # The API server would take that for any version.
            raise Outdated("the model as it was read has no version")
        path = f"/apis/{API_VERSION}/namespaces/{metadata.namespace}/servedmodels/{metadata.name}"
        body = {
            "metadata": {"resourceVersion": metadata.resource_version},
            "spec": {"replicas": replicas},
        }
        try:
            await self._api.send("PATCH", f"{path}/scale", body, MERGE_PATCH, FIELD_MANAGER)
        except (AnswerRefused, Unanswered) as error:
            if isinstance(error, AnswerRefused) and error.status in (CONFLICT, NOT_FOUND):
                raise Outdated(str(error)) from None
            raise Unsteerable(explain(error, _SCALE)) from None

    async def renew(self, model: ServedModel) -> None:
        """Tell that the model is used, or waited for, now. Raises `Unsteerable`."""
        await self._tell(model, {})

    async def ask_again(self, model: ServedModel) -> None:
        """Ask for a load by a word that was never said before. Raises `Unsteerable`."""
        await self._tell(model, {LOAD_REQUEST_ANNOTATION: uuid4().hex})

    async def _tell(self, model: ServedModel, more: dict[str, str]) -> None:
        """Merge it into the Lease; make one if there is none; merge if another made it first."""
        metadata = model.metadata
        name = demand_lease(metadata.uid)
        lease = build_lease(
            name,
            {PURPOSE_LABEL: DEMAND, MODEL_UID_LABEL: metadata.uid, PART_OF_LABEL: PART_OF_VALUE},
            {
                MODEL_NAMESPACE_ANNOTATION: metadata.namespace,
                MODEL_NAME_ANNOTATION: metadata.name,
                **more,
            },
            self._identity,
            _LEASE_SECONDS,
            self._now(),
        )
        path = f"{self._leases}/{name}"
        if await self._done("PATCH", path, lease, but=NOT_FOUND):
            return
        if await self._done("POST", self._leases, lease, but=CONFLICT):
            return
        if not await self._done("PATCH", path, lease, but=NOT_FOUND):
            raise Unsteerable("The model's Lease comes and goes, and could not be written.")

    async def _done(self, method: str, path: str, lease: Json, but: int) -> bool:
        """Whether it was done, and not refused with that status. Raises `Unsteerable`."""
        patches = method == "PATCH"
        content_type = MERGE_PATCH if patches else PLAIN
        try:
            await self._api.send(method, path, lease, content_type, FIELD_MANAGER)
        except (AnswerRefused, Unanswered) as error:
            if isinstance(error, AnswerRefused) and error.status == but:
                return False
            raise Unsteerable(explain(error, _PATCH if patches else _CREATE)) from None
        return True
