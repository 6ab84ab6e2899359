"""What the cluster holds of ours, as the watches tell it: the operator's memory. No I/O.

A reconciliation reads here and asks the API server nothing. An older copy of an object never
replaces a newer one, and none brings back what is gone, so that what a write of ours returned, or
a listing that took its time, may be put in at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pumas_crds.vocabulary import GROUP, MODEL_NAME_ANNOTATION, MODEL_UID_LABEL
from pumas_operator.json_object import Json, items, member, text
from pumas_operator.kinds import LEASE, POD, SERVED_MODEL, Kind
from pumas_operator.requests import is_claimed

#: Objects whose end is remembered: far more than can end while an answer is on its way.
_ENDED = 1000


class Key(NamedTuple):
    """Namespace and name of a ServedModel: what a reconciliation is about."""

    namespace: str
    name: str


def key_of(body: Json) -> Key:
    """The key of an object of any kind."""
    metadata = member(body, "metadata")
    return Key(text(metadata, "namespace"), text(metadata, "name"))


def uid_of(body: Json) -> str:
    """The uid of an object."""
    return text(member(body, "metadata"), "uid")


def owner_of(body: Json) -> str:
    """The uid of the ServedModel that controls the object; empty when none does."""
    for owner in items(member(body, "metadata"), "ownerReferences"):
        group = text(owner, "apiVersion").partition("/")[0]
        ours = group == GROUP and text(owner, "kind") == SERVED_MODEL.name
        if ours and owner.get("controller") is True:
            return text(owner, "uid")
    return ""


def owners_of(body: Json) -> set[str]:
    """The uids of all that own the object, whatever they are."""
    return {text(owner, "uid") for owner in items(member(body, "metadata"), "ownerReferences")}


def is_going(body: Json) -> bool:
    """Whether the object is being deleted."""
    return "deletionTimestamp" in member(body, "metadata")


class Objects:
    """All objects by kind and key, with the pods of each model at hand."""

    def __init__(self) -> None:
        self._held: dict[Kind, dict[Key, Json]] = defaultdict(dict)
        self._owned: dict[Kind, dict[str, set[Key]]] = defaultdict(lambda: defaultdict(set))
        self._ended: dict[str, int] = {}

    def get(self, kind: Kind, key: Key) -> Json | None:
        """One object."""
        return self._held[kind].get(key)

    def all(self, kind: Kind) -> Iterable[Json]:
        """Every object of a kind."""
        return tuple(self._held[kind].values())

    def keys(self, kind: Kind) -> set[Key]:
        """The keys of every object of a kind."""
        return set(self._held[kind])

    def owned(self, kind: Kind, model_uid: str) -> Iterable[Json]:
        """The objects of a kind that a model controls."""
        held = self._held[kind]
        return tuple(held[key] for key in sorted(self._owned[kind].get(model_uid, ())))

    def pods(self, model_uid: str) -> tuple[Json, ...]:
        """The pods that serve or inspect a model."""
        return tuple(self.owned(POD, model_uid))

    def put(self, kind: Kind, body: Json) -> bool:
        """Take in an object; False when it is no newer than what is held, or than what went."""
        if _version(body) <= self._ended.get(uid_of(body), -1):
            return False
        key = key_of(body)
        held = self._held[kind].get(key)
        if held is not None:
            same, newer = uid_of(held) == uid_of(body), _version(body) - _version(held)
            # Of two that had one name after each other the later has the higher version.
            if newer < 0 or (same and newer == 0):
                return False
            self._disown(kind, key, held)
            if not same:
                self._end(held)
        self._held[kind][key] = _without_field_owners(body)
        self._owned[kind][_model_uid(kind, body)].add(key)
        return True

    def remove(self, kind: Kind, key: Key, uid: str) -> None:
        """Forget an object that is gone, unless another has its name already."""
        held = self._held[kind].get(key)
        if held is not None and uid_of(held) == uid:
            del self._held[kind][key]
            self._disown(kind, key, held)
            self._end(held)

    def _end(self, held: Json) -> None:
        """No copy of what is gone brings it back. What only left a watch may return newer."""
        self._ended[uid_of(held)] = _version(held)
        if len(self._ended) > _ENDED:
            del self._ended[next(iter(self._ended))]

    def _disown(self, kind: Kind, key: Key, body: Json) -> None:
        uid = _model_uid(kind, body)
        self._owned[kind][uid].discard(key)
        if not self._owned[kind][uid]:
            del self._owned[kind][uid]


def model_key(body: Json) -> Key:
    """The key of the model that a child or a pod of ours belongs to, as the child tells it."""
    metadata = member(body, "metadata")
    name = text(member(metadata, "annotations"), MODEL_NAME_ANNOTATION)
    return Key(text(metadata, "namespace"), name)


def _model_uid(kind: Kind, body: Json) -> str:
    """Whose an object is: a pod, which a ReplicaSet or a Job controls, says so in a label, and so
    does a Lease, which is another namespace's."""
    if kind in (POD, LEASE):
        return text(member(member(body, "metadata"), "labels"), MODEL_UID_LABEL)
    return owner_of(body)


def _version(body: Json) -> int:
    version = text(member(body, "metadata"), "resourceVersion")
    return int(version) if version.isdecimal() else 0


def _without_field_owners(body: Json) -> Json:
    """The object in less memory: who owns its fields matters only until we have claimed ours."""
    metadata: Mapping[str, object] = member(body, "metadata")
    if "managedFields" not in metadata or not is_claimed(body):
        return body
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    return {**body, "metadata": kept}
