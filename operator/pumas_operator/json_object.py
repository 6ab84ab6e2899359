"""Careful reading of Kubernetes' objects: what is missing, or is something else, is empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Json = Mapping[str, object]

EMPTY: Json = {}


def member(value: Json, name: str) -> Json:
    """The object at `name`; empty when there is none."""
    found = value.get(name)
    return found if isinstance(found, Mapping) else EMPTY


def items(value: Json, name: str) -> Iterator[Json]:
    """The objects in the list at `name`."""
    found = value.get(name)
    for item in found if isinstance(found, list) else ():
        if isinstance(item, Mapping):
            yield item


def text(value: Json, name: str) -> str:
    """The text at `name`; empty when there is none."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def whole(value: Json, name: str) -> int:
    """The whole number at `name`; 0 when there is none."""
    found = value.get(name)
    return found if type(found) is int else 0
