"""Whether an object in the cluster still is what we want of it. Pure.

The API server adds defaults and others add fields of theirs, so an object is compared only where
ours speaks. Lists are ours whole; but of lists whose items have names, as containers have, others
may add items, as an admission policy does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pumas_operator.json_object import Json
from pumas_operator.labels import Object

#: Of the metadata, what we set after an object was made; the rest is its identity.
_METADATA = ("labels", "annotations", "ownerReferences")


def covers(actual: Json, desired: Object) -> bool:
    """Whether every field that `desired` sets has that value in `actual`."""
    for name, wanted in desired.items():
        if name in ("apiVersion", "kind"):
            continue
        found = actual.get(name)
        if name == "metadata" and isinstance(wanted, Mapping) and isinstance(found, Mapping):
            wanted = {part: wanted[part] for part in _METADATA if part in wanted}
        if not _covers(found, wanted):
            return False
    return True


def _covers(found: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        # Kubernetes leaves an empty object out.
        there = found if isinstance(found, Mapping) else ({} if found is None else None)
        return there is not None and all(
            _covers(there.get(name), value) for name, value in wanted.items()
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        there_list = found if isinstance(found, Sequence) and not isinstance(found, str) else []
        return _covers_list(there_list, wanted)
    if found is None:
        return wanted in (None, False, "", 0)
    return type(found) is type(wanted) and found == wanted


def _covers_list(found: Sequence[object], wanted: Sequence[object]) -> bool:
    named = _by_name(wanted)
    if named:
        there = _by_name(found)
        return all(name in there and _covers(there[name], item) for name, item in named.items())
    return len(found) == len(wanted) and all(
        _covers(item, ours) for item, ours in zip(found, wanted, strict=True)
    )


def _by_name(listed: Sequence[object]) -> Mapping[object, object]:
    """Items by their names; empty when one has none, or two share one."""
    names = {
        item["name"]: item
        for item in listed
        if isinstance(item, Mapping) and isinstance(item.get("name"), str)
    }
    return names if len(names) == len(listed) else {}
