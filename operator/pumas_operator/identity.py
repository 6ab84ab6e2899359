"""Which of several models that ask for one alias and profile is served. Pure.

The oldest wins, then the one with the smaller uid, so that every reader of the same objects comes
to the same answer, and a newcomer never takes a name away from what serves.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import DEFAULT_PROFILE
from pumas_operator.json_object import Json, member, text

Identity = tuple[str, str]


def read_identity(body: Json) -> Identity:
    """The effective alias and profile of an object, readable otherwise or not."""
    spec = member(body, "spec")
    name = text(member(body, "metadata"), "name")
    return text(spec, "alias") or name, text(spec, "profile") or DEFAULT_PROFILE


def is_duplicate(model: ServedModel, created: str, bodies: Iterable[Json]) -> bool:
    """Whether another object has the model's identity and comes first."""
    identity, own = (model.alias, model.profile), (created, model.metadata.uid)
    return any(
        read_identity(body) == identity and age_of(body) < own
        for body in bodies
        if text(member(body, "metadata"), "uid") != model.metadata.uid
    )


def age_of(body: Json) -> Identity:
    """What the order among rivals goes by: creation time (RFC 3339 in UTC) and uid."""
    metadata = member(body, "metadata")
    return text(metadata, "creationTimestamp"), text(metadata, "uid")
