"""What comes in: takes watch events into memory and says which models they concern.

An event is a hint to look, never a command: what is done depends on what is held. Watches do not
tell what was deleted while they were not connected and the server forgot; for that all is listed
now and then (`Listing`), and whatever a listing lacks is gone.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import NamedTuple

from pumas_crds.demand import DEMAND, LOAD_REQUEST_ANNOTATION, PURPOSE_LABEL
from pumas_crds.identity import read_identity
from pumas_crds.vocabulary import (
    MANAGED_BY_LABEL,
    MANAGED_BY_VALUE,
    MODEL_UID_LABEL,
    PART_OF_LABEL,
    PART_OF_VALUE,
)
from pumas_operator.cluster import Cluster
from pumas_operator.json_object import Json, items, member, text
from pumas_operator.kinds import (
    JOB,
    LEASE,
    POD,
    SERVED_MODEL,
    SERVING_PROFILE,
    WATCHED_CHILDREN,
    Kind,
)
from pumas_operator.objects import Key, Objects, key_of, model_key, uid_of
from pumas_operator.requests import build_list

_log = logging.getLogger(__name__)

CHILD_SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY_VALUE}"


def _nobody(uid: str) -> None:
    """Nobody remembers anything of it."""


def _is_demand(lease: Json) -> bool:
    return text(member(member(lease, "metadata"), "labels"), PURPOSE_LABEL) == DEMAND


def demanded_uid(lease: Json) -> str:
    """The uid of the model that a Lease tells demand for."""
    return text(member(member(lease, "metadata"), "labels"), MODEL_UID_LABEL)


def load_request(lease: Json) -> str:
    """The last explicit load request that a Lease tells of."""
    return text(member(member(lease, "metadata"), "annotations"), LOAD_REQUEST_ANNOTATION)[:64]


class Watched(NamedTuple):
    """A kind that is watched, and which of its objects."""

    kind: Kind
    selector: str
    at_home: bool = False
    """Only in the operator's own namespace."""


#: Its own Lease, whose renewal is the operator's pulse, and those of demand.
LEASE_SELECTOR = f"{PART_OF_LABEL}={PART_OF_VALUE}"

WATCHED = (
    # Before the models: what they are asked for is known when they are looked at first.
    Watched(LEASE, LEASE_SELECTOR, at_home=True),
    Watched(SERVED_MODEL, ""),
    Watched(SERVING_PROFILE, "", at_home=True),
    *(Watched(kind, CHILD_SELECTOR) for kind in (*WATCHED_CHILDREN, JOB, POD)),
)


class Intake:
    """Takes objects in, and has `concern` told the keys of models to look at."""

    def __init__(
        self,
        objects: Objects,
        concern: Callable[[Key], None],
        forget_model: Callable[[str], None],
        forget_pod: Callable[[str], None],
        relisted: Callable[[], None],
        wanted: Callable[[str], None] = _nobody,
    ) -> None:
        """`wanted` is told the uid of a model whose demand was renewed."""
        self._objects = objects
        self._concern = concern
        self._forget = {SERVED_MODEL: forget_model, POD: forget_pod}
        self.relisted = relisted
        self._wanted = wanted

    def seen(self, kind: Kind, body: Json) -> None:
        """An object is there, or has changed."""
        if kind is LEASE and not _is_demand(body):
            return
        held = self._objects.get(kind, key_of(body))
        if not self._objects.put(kind, body):
            return
        if kind is LEASE:
            self._wanted(demanded_uid(body))
            if held is not None and load_request(held) == load_request(body):
                return  # a renewal: there is nothing to be done
        # A rival's change cannot give a name away; its coming and going can.
        known = held is not None and uid_of(held) == uid_of(body)
        if held is not None and not known:
            self._ended(kind, held)
        self._concerns(kind, body, rivals=not known)

    def gone(self, kind: Kind, body: Json) -> None:
        """An object was deleted."""
        self._objects.remove(kind, key_of(body), uid_of(body))
        self._ended(kind, body)

    def _ended(self, kind: Kind, body: Json) -> None:
        """An object is no more, whether that was seen or another has its name."""
        self._forget.get(kind, _nobody)(uid_of(body))
        self._concerns(kind, body, rivals=True)

    def _concerns(self, kind: Kind, body: Json, *, rivals: bool) -> None:
        if kind is SERVING_PROFILE:
            name = key_of(body).name
            for model in self._objects.all(SERVED_MODEL):
                if read_identity(model)[1] == name:
                    self._concern(key_of(model))
        elif kind is SERVED_MODEL:
            self._concern(key_of(body))
            for model in self._objects.all(SERVED_MODEL) if rivals else ():
                if read_identity(model) == read_identity(body):
                    self._concern(key_of(model))
        elif kind is LEASE:
            for model in self._objects.all(SERVED_MODEL):
                if uid_of(model) == demanded_uid(body):
                    self._concern(key_of(model))
        else:
            self._concern(model_key(body))


class Listing:
    """Lists everything that is watched, so that memory is what the cluster holds."""

    def __init__(
        self,
        cluster: Cluster,
        objects: Objects,
        intake: Intake,
        home: str,
        namespaces: Iterable[str],
    ) -> None:
        self._cluster = cluster
        self._objects = objects
        self._intake = intake
        self._home = home
        self._namespaces = tuple(namespaces)

    async def list_all(self) -> None:
        """Take in all that is there, then drop what is not. Raises `Unreachable`, `Refused`."""
        for watched in WATCHED:
            before = {
                key: self._objects.get(watched.kind, key)
                for key in self._objects.keys(watched.kind)
            }
            there: set[str] = set()
            for path in self._paths(watched):
                async for body in self._list(path, watched):
                    there.add(uid_of(body))
                    self._intake.seen(watched.kind, body)
            self._drop(watched.kind, before, there)

    def _drop(self, kind: Kind, before: Mapping[Key, Json | None], there: set[str]) -> None:
        for key, body in before.items():
            missing = body is not None and uid_of(body) not in there
            # What was taken in since is newer than the listing.
            if missing and body is not None and self._objects.get(kind, key) is body:
                _log.info("%s %s went unseen", kind.name, key.name)
                self._intake.gone(kind, body)

    def _paths(self, watched: Watched) -> list[str]:
        if watched.at_home:
            return [watched.kind.path(self._home)]
        return [watched.kind.path(name) for name in self._namespaces] or [watched.kind.everywhere]

    async def _list(self, path: str, watched: Watched) -> AsyncIterator[Json]:
        proceed = ""
        while True:
            page = await self._cluster.send(build_list(path, watched.selector, proceed))
            for item in items(page, "items"):
                # Items of a list of built-in kinds do not say what they are.
                yield {"apiVersion": watched.kind.api_version, "kind": watched.kind.name, **item}
            proceed = text(member(page, "metadata"), "continue")
            if not proceed:
                return
