"""Whether a model's alias and profile are another's, by the rule of `pumas_crds.identity`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pumas_crds.identity import age_of, read_identity
from pumas_crds.served_model import ServedModel
from pumas_operator.json_object import Json
from pumas_operator.objects import uid_of


def is_duplicate(model: ServedModel, created: str, bodies: Iterable[Json]) -> bool:
    """Whether another object has the model's identity and comes first."""
    identity, own = (model.alias, model.profile), (created, model.metadata.uid)
    return any(
        read_identity(body) == identity and age_of(body) < own
        for body in bodies
        if uid_of(body) != model.metadata.uid
    )
