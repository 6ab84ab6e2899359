"""Carrying out a plan: the one place where children are made, changed and deleted.

Level-based: what is as it should be costs no request. What the cluster refuses is told, not raised;
an API server that cannot be reached is raised, and the whole plan made anew later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import Reason
from pumas_operator.cluster import Cluster, Refused
from pumas_operator.drift import covers
from pumas_operator.json_object import Json, member, text
from pumas_operator.kinds import CHILDREN, DEPLOYMENT, JOB, SECRET, Kind
from pumas_operator.labels import Object
from pumas_operator.manifests import spec_hash
from pumas_operator.objects import Objects, is_going, key_of, owner_of, uid_of
from pumas_operator.plan import Plan
from pumas_operator.requests import (
    build_apply,
    build_claim,
    build_create,
    build_delete,
    build_get,
    build_replicas,
    is_claimed,
)
from pumas_operator.sentence import build_sentence

#: Secrets are not watched; one that is there is looked at again after this.
SECRET_SECONDS = 1800.0
#: The same while the model's pods do not get on: a missing Secret may be why.
TROUBLED_SECRET_SECONDS = 30.0

_CONFLICT, _NOT_FOUND = 409, 404


@dataclass(frozen=True, slots=True)
class Carried:
    """What came of a plan."""

    foreign: str = ""
    """Kind and name of an object that is in the way and not ours."""
    fault: Fault | None = None
    """What the cluster refused, in its own sentence."""


class _Foreign(Exception):
    """An object of a child's name is not ours."""


class Changed(Exception):
    """An object was changed by somebody between our reading and our writing it."""


class Applier:
    """Makes the cluster so."""

    def __init__(
        self, cluster: Cluster, objects: Objects, clock: Callable[[], float] = monotonic
    ) -> None:
        self._cluster = cluster
        self._objects = objects
        self._clock = clock
        self._secrets: dict[str, float] = {}
        self._settled: dict[str, dict[Kind, tuple[str, str]]] = defaultdict(dict)

    async def carry_out(self, plan: Plan, uid: str) -> Carried:
        """Do all of it, up to the first thing that cannot be done.

        Raises `Unreachable`, and `Changed` when the plan was made from what is no longer so.
        """
        kind, name = DEPLOYMENT, ""
        try:
            for kind, body in plan.obsolete:
                name = key_of(body).name
                await self._delete(kind, body)
            if plan.job is not None:
                kind, name = JOB, key_of(plan.job).name
                await self._make(JOB, plan.job, uid)
            if plan.shrink is not None:
                deployment, replicas = plan.shrink
                kind, name = DEPLOYMENT, key_of(deployment).name
                await self._shrink(deployment, replicas)
            for child in plan.children:
                kind, name = CHILDREN[text(child, "kind")], key_of(child).name
                if kind is SECRET:
                    await self._ensure_secret(child, uid, troubled=_troubled(plan))
                else:
                    await self._ensure(kind, child, uid)
        except _Foreign:
            return Carried(foreign=f"{kind.name} {name}")
        except Refused as error:
            if error.outdated:
                raise Changed(f"{kind.name} {name}") from None
            sentence = build_sentence(error.message, "It gives no reason.")
            message = f"The cluster refuses the {kind.name} {name}: {sentence}"
            return Carried(fault=Fault(reason=Reason.APPLY_REFUSED, message=message))
        return Carried()

    def forget(self, uid: str) -> None:
        """The model is gone."""
        self._secrets.pop(uid, None)
        self._settled.pop(uid, None)

    async def _ensure(self, kind: Kind, desired: Object, uid: str) -> None:
        held = self._objects.get(kind, key_of(desired))
        if held is None:
            held = await self._make(kind, desired, uid)
        await self._make_so(kind, held, desired, uid)

    async def _make(self, kind: Kind, desired: Object, uid: str) -> Json:
        """Make an object, or find the one of ours that is there already."""
        try:
            made = await self._cluster.send(build_create(kind, desired))
        except Refused as error:
            if error.status != _CONFLICT:
                raise
            key = key_of(desired)
            made = await self._cluster.send(build_get(kind, key.namespace, key.name))
            if owner_of(made) != uid:
                raise _Foreign from None
        return self._keep(kind, made)

    async def _make_so(self, kind: Kind, held: Json, desired: Object, uid: str) -> None:
        if is_going(held):
            return  # its end is an event
        if owner_of(held) != uid:
            raise _Foreign
        if not is_claimed(held):
            held = self._keep(kind, await self._claim(kind, held))
        wanted, found = spec_hash(desired), _stable(held)
        settled = self._settled[uid]
        if covers(held, desired) or settled.get(kind) == (wanted, found):
            return
        request = build_apply(kind, desired, uid_of(held))
        made = self._keep(kind, await self._cluster.send(request))
        if covers(made, desired):
            settled.pop(kind, None)
        else:
            # The API server writes some value otherwise than it was given: as good as it gets.
            settled[kind] = (wanted, _stable(made))

    async def _claim(self, kind: Kind, held: Json) -> Json:
        try:
            return await self._cluster.send(build_claim(kind, held))
        except Refused as error:
            if error.status != _CONFLICT:
                raise
        # Its controller has written its status since.
        key = key_of(held)
        held = await self._cluster.send(build_get(kind, key.namespace, key.name))
        return await self._cluster.send(build_claim(kind, held))

    async def _ensure_secret(self, desired: Object, uid: str, *, troubled: bool) -> None:
        at = self._secrets.get(uid)
        patience = TROUBLED_SECRET_SECONDS if troubled else SECRET_SECONDS
        if at is not None and self._clock() - at < patience:
            return
        key = key_of(desired)
        try:
            held = await self._cluster.send(build_get(SECRET, key.namespace, key.name))
        except Refused as error:
            if error.status != _NOT_FOUND:
                raise
            held = await self._make(SECRET, desired, uid)
        await self._make_so(SECRET, held, desired, uid)
        self._secrets[uid] = self._clock()

    async def _shrink(self, deployment: Json, replicas: int) -> None:
        namespace, name = key_of(deployment)
        request = build_replicas(DEPLOYMENT, namespace, name, uid_of(deployment), replicas)
        self._keep(DEPLOYMENT, await self._cluster.send(request))

    async def _delete(self, kind: Kind, body: Json) -> None:
        if is_going(body):
            return
        key = key_of(body)
        try:
            await self._cluster.send(build_delete(kind, key.namespace, key.name, uid_of(body)))
        except Refused as error:
            if error.status != _NOT_FOUND:
                raise

    def _keep(self, kind: Kind, body: Json) -> Json:
        if kind is not SECRET:
            self._objects.put(kind, body)
        return body


def _troubled(plan: Plan) -> bool:
    return not all(pod.ready for pod in plan.observed.live)


def _stable(body: Json) -> str:
    """A digest of what of an object its own controller does not change all the time."""
    metadata = member(body, "metadata")
    kept = {name: value for name, value in body.items() if name not in ("metadata", "status")}
    kept |= {part: metadata.get(part) for part in ("labels", "ownerReferences")}
    return spec_hash(kept)
