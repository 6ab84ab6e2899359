"""One reconciliation: look at what is held of a model, plan, carry out, tell.

Level-based and idempotent: it may run at any time, any number of times. All that it looks at is in
memory, but for what only pods and Events know.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from pydantic import ValidationError

from pumas_crds.demand import RENEW_SECONDS
from pumas_crds.engine_key import engine_key
from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.serving_profile import BUILT_IN_DEFAULT, ServingProfile
from pumas_crds.vocabulary import DEFAULT_PROFILE, LoadState, Reason
from pumas_operator.applying import Applier
from pumas_operator.cluster import Cluster, Refused
from pumas_operator.describing import Describer, is_running
from pumas_operator.happenings import build_events
from pumas_operator.identity import is_duplicate
from pumas_operator.intake import load_request
from pumas_operator.json_object import Json, items, member, text, whole
from pumas_operator.kinds import (
    AUTOSCALER,
    JOB,
    LEASE,
    SERVED_MODEL,
    SERVING_PROFILE,
    WATCHED_CHILDREN,
)
from pumas_operator.manifests import Settings
from pumas_operator.objects import Key, Objects, is_going, key_of, uid_of
from pumas_operator.plan import Plan, Snapshot, build_plan, is_inspector
from pumas_operator.pod_truth import is_over, is_ready
from pumas_operator.requests import build_event_write, build_list, build_rest, build_status_write
from pumas_operator.rest import Uses
from pumas_operator.stall import (
    build_claim_events_query,
    build_events_query,
    build_stall,
    is_preparing,
    select_podless_jobs,
    select_silent_jobs,
    select_silent_pods,
    select_unbound_claims,
)
from pumas_operator.status import build_status
from pumas_operator.unreadable import (
    build_unreadable_status,
    describe_fault,
    read_model,
    read_status,
)

_log = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
#: How soon to look again without an event, and at what: a pod whose engine is not ready, an object
#: that is in the way, was refused or lacks a volume, something whose reason only Events tell.
STARTING_SECONDS = 3.0
REFUSED_SECONDS = 15.0
SILENT_SECONDS = 5.0


class Reconciler:
    """Makes one model so, and says what is true of it."""

    def __init__(
        self,
        cluster: Cluster,
        objects: Objects,
        describer: Describer,
        settings: Settings,
        namespace: str,
        secret: bytes,
        uses: Uses | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._objects = objects
        self._describer = describer
        self._settings = settings
        self._namespace = namespace
        self._secret = secret
        self._uses = uses or Uses()
        self._clock = clock
        self._applier = Applier(cluster, objects)

    async def reconcile(self, key: Key) -> float | None:
        """Do it; in how many seconds to do it again without an event, None when never.

        Raises `Unreachable` and `Changed`, upon which it is to be done again later.
        """
        body = self._objects.get(SERVED_MODEL, key)
        if body is None or is_going(body):
            return None
        model = read_model(body)
        if isinstance(model, Fault):
            status = build_unreadable_status(body, model, self._now())
            await self._tell(body, read_status(body), status)
            return RESYNC_SECONDS
        snapshot = await self._look(model, body)
        plan = build_plan(snapshot, self._settings, engine_key(self._secret, model.metadata.uid))
        carried = await self._applier.carry_out(plan, model.metadata.uid)
        observed = replace(
            plan.observed,
            foreign=carried.foreign,
            workload_fault=carried.fault or plan.observed.workload_fault,
        )
        status = build_status(model, observed, self._now())
        await self._tell(body, model.status, status)
        troubled = bool(carried.foreign or carried.fault)
        patience = self._patience(snapshot, plan, troubled=troubled)
        rest = await self._rest(key, model, status, snapshot)
        return patience if rest is None else min(patience, rest)

    def forget(self, uid: str) -> None:
        """The model of that uid is gone."""
        self._applier.forget(uid)
        self._uses.forget(uid)

    async def _rest(
        self, key: Key, model: ServedModel, status: ServedModelStatus, snapshot: Snapshot
    ) -> float | None:
        """Put the model to rest if that is due; else in how many seconds it may be due."""
        seconds = self._uses.seconds_to_rest(model, status)
        if seconds is None or seconds > 0:
            return seconds
        decided_on = self._objects.get(SERVED_MODEL, key)
        if decided_on is None or _generation(decided_on) != model.metadata.generation:
            return None  # an event has come, and with it the next reconciliation
        if status.load_state is LoadState.LOADED:
            # What inspects and what has ended works on no call, and would never say so.
            pods = [pod for pod in snapshot.pods if not is_inspector(pod) and not is_over(pod)]
            if await self._describer.busy(pods):
                self._uses.wanted(model.metadata.uid)
                return RENEW_SECONDS
            if await self._autoscaled(model):
                return RESYNC_SECONDS
        try:
            await self._cluster.send(build_rest(member(decided_on, "metadata")))
        except Refused as error:
            if not error.outdated:
                raise
        return None

    async def _autoscaled(self, model: ServedModel) -> bool:
        """Whether an autoscaler of somebody else decides how many pods the model has."""
        path = AUTOSCALER.path(model.metadata.namespace)
        found = items(await self._cluster.send(build_list(path, "")), "items")
        targets = (member(member(each, "spec"), "scaleTargetRef") for each in found)
        return any(
            text(target, "kind") == SERVED_MODEL.name
            and text(target, "name") == model.metadata.name
            for target in targets
        )

    async def _look(self, model: ServedModel, body: Json) -> Snapshot:
        profile, fault = self._profile(model.profile)
        uid, namespace = model.metadata.uid, model.metadata.namespace
        children = {
            kind: child for kind in WATCHED_CHILDREN for child in self._objects.owned(kind, uid)
        }
        jobs = tuple(self._objects.owned(JOB, uid))
        pods = self._objects.pods(uid)
        serving = [pod for pod in pods if not is_inspector(pod)]
        created = text(member(body, "metadata"), "creationTimestamp")
        return Snapshot(
            model,
            profile,
            fault,
            is_duplicate(model, created, self._objects.all(SERVED_MODEL)),
            children,
            jobs,
            pods,
            await self._describer.describe(serving),
            await self._stalled(namespace, jobs, pods),
            next(map(load_request, self._objects.owned(LEASE, uid)), ""),
        )

    def _profile(self, name: str) -> tuple[ServingProfile | None, Fault | None]:
        body = self._objects.get(SERVING_PROFILE, Key(self._namespace, name))
        if body is None:
            return (BUILT_IN_DEFAULT if name == DEFAULT_PROFILE else None), None
        try:
            return ServingProfile.model_validate(body), None
        except ValidationError as error:
            return None, describe_fault(error, f"The ServingProfile {name} cannot be read: ")

    async def _stalled(
        self, namespace: str, jobs: tuple[Json, ...], pods: tuple[Json, ...]
    ) -> Mapping[str, Fault]:
        """What Events say of what says nothing itself."""
        now = self._now()
        silent = {uid: Reason.REPLICA_FAILURE for uid in select_silent_jobs(jobs, pods, now)}
        for uid in select_silent_pods(pods, now):
            silent[uid] = Reason.CREATE_CONTAINER_CONFIG_ERROR
        queries = {uid: build_events_query(namespace, uid) for uid in silent}
        for uid, claim in select_unbound_claims(pods):
            silent[uid] = Reason.UNSCHEDULABLE
            queries[uid] = build_claim_events_query(namespace, claim)
        told = {}
        for uid, reason in silent.items():
            fault = build_stall(await self._cluster.send(queries[uid]), reason)
            if fault is not None:
                told[uid] = fault
        return told

    async def _tell(self, body: Json, before: ServedModelStatus, status: ServedModelStatus) -> None:
        """Write the status if it has changed, then record what did."""
        if status == before:
            return
        written = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            answer = await self._cluster.send(build_status_write(member(body, "metadata"), written))
        except Refused as error:
            if not error.outdated:
                raise
            return  # changed, deleted or made anew under its name meanwhile: an event tells
        self._objects.put(SERVED_MODEL, answer)
        for event in build_events(body, before, status, self._now()):
            try:
                await self._cluster.send(build_event_write(event))
            except Refused as error:
                _log.info("an event of %s was not recorded: %s", key_of(body).name, error.message)

    def _patience(self, snapshot: Snapshot, plan: Plan, *, troubled: bool) -> float:
        live = [pod for pod in snapshot.pods if not is_going(pod)]
        if any(is_running(pod) and not is_ready(pod) for pod in live):
            return STARTING_SECONDS
        unknown = [pod for pod in live if is_ready(pod) and uid_of(pod) not in snapshot.descriptors]
        if any(is_running(pod) for pod in unknown):
            return STARTING_SECONDS
        silent = any(is_preparing(pod) for pod in live)
        if silent or any(select_podless_jobs(snapshot.jobs, snapshot.pods)) or plan.job:
            return SILENT_SECONDS
        if troubled or any(select_unbound_claims(live)):
            return REFUSED_SECONDS
        return RESYNC_SECONDS * random.uniform(0.9, 1.1)

    def _now(self) -> datetime:
        return self._clock().replace(microsecond=0)


def _generation(body: Json) -> int:
    return whole(member(body, "metadata"), "generation")
