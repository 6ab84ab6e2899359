"""Model records from what the Kubernetes API holds: ServedModels and EndpointSlices. Pure.

A slice belongs to the model of its namespace whose uid its label tells: Kubernetes copies a
Service's labels, and a slice from another namespace is an impostor's. An address counts as ready
when the slice says so, or says nothing; one that is terminating never does, also while it still
serves.

Of several models that ask for one alias and profile one is served: what the operator tells the
others is also computed here, from the same objects by the same rule (`pumas_crds.identity`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from pumas_crds.engine_key import engine_key
from pumas_crds.identity import age_of, read_identity
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import (
    ENGINE_PORT,
    ENGINE_PORT_NAME,
    MODEL_UID_LABEL,
    SUPERVISOR_PORT,
    SUPERVISOR_PORT_NAME,
    Runtime,
)
from pumas_server.router.source import EXTERNAL_UID, Endpoint, ModelRecord

Json = Mapping[str, Any]

#: What is taken of a status that an operator of another release wrote in words unknown here.
_PLAIN_STATUS = ("loadState", "specHash")


@dataclass(frozen=True, slots=True)
class Reading:
    """A ServedModel as far as it can be read. Made once for each state of an object."""

    identity: tuple[str, str]
    """Effective alias and profile, which a model that cannot be read holds all the same."""
    age: tuple[str, str]
    """What the order among rivals goes by."""
    model: ServedModel | None
    """None when it cannot be read."""
    status_read: bool
    """False when its status holds words that are unknown here; the plain ones are kept then."""


def read_model(body: Json) -> Reading:
    """What can be read of an object of the API."""
    identity, age = read_identity(body), age_of(body)
    whole = body.get("status") or {}
    plain = {name: whole[name] for name in _PLAIN_STATUS if name in whole}
    for status in (whole, plain, {}):
        try:
            model = ServedModel.model_validate({**body, "status": status})
        except ValidationError:
            continue
        return Reading(identity, age, model, status_read=status is whole)
    return Reading(identity, age, None, status_read=False)


def build_records(
    models: Iterable[Reading], slices: Iterable[Json], secret: bytes
) -> tuple[ModelRecord, ...]:
    """The records of all models that have their identity for themselves and can be read."""
    pieces: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for piece in slices:
        metadata = piece["metadata"]
        uid = (metadata.get("labels") or {}).get(MODEL_UID_LABEL)
        if uid and piece.get("addressType") != "FQDN":
            pieces[metadata.get("namespace", ""), uid].append(piece)
    return tuple(
        ModelRecord(
            model,
            model.status.spec_hash,
            _endpoints(model, reading.status_read, pieces, secret),
        )
        for reading in _winners(models)
        if (model := reading.model) is not None
    )


def _winners(models: Iterable[Reading]) -> Iterator[Reading]:
    """The first of each identity."""
    taken: set[tuple[str, str]] = set()
    for reading in sorted(models, key=lambda reading: reading.age):
        if reading.identity not in taken:
            taken.add(reading.identity)
            yield reading


def _endpoints(
    model: ServedModel,
    status_read: bool,
    pieces: Mapping[tuple[str, str], list[Json]],
    secret: bytes,
) -> tuple[Endpoint, ...]:
    metadata, spec = model.metadata, model.spec
    if spec.runtime is not Runtime.EXTERNAL:
        key = engine_key(secret, metadata.uid)
        mine = pieces.get((metadata.namespace, metadata.uid), [])
        return tuple(_pods(mine, key, admits=not spec.suspend))
    # A server that the operator refuses is not called. An error that cannot be read may say so.
    allowed = status_read and model.status.error is None and not spec.suspend
    if spec.endpoint is None or not allowed:
        return ()
    return (Endpoint(EXTERNAL_UID, spec.endpoint.root(), None, ready=True),)


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Where a slice says that a pod is. In order of preference: IPv4 first."""

    ipv6: bool
    address: str
    engine: int
    supervisor: int
    ready: bool
    terminating: bool


def _pods(pieces: Iterable[Json], key: str, *, admits: bool) -> Iterator[Endpoint]:
    """One endpoint a pod: it stands in a slice of each address family, and while slices are
    rearranged in two of one family. A word of its end counts wherever it stands."""
    places: dict[str, list[_Place]] = defaultdict(list)
    for piece in pieces:
        for uid, place in _places(piece):
            places[uid].append(place)
    for uid, found in sorted(places.items()):
        place = min(found)
        host = f"[{place.address}]" if place.ipv6 else place.address
        ready = any(p.ready for p in found) and not any(p.terminating for p in found)
        yield Endpoint(
            uid=uid,
            url=f"http://{host}:{place.engine}",
            supervisor_url=f"http://{host}:{place.supervisor}",
            ready=ready and admits,
            api_key=key,
        )


def _places(piece: Json) -> Iterator[tuple[str, _Place]]:
    ports = {p.get("name"): p.get("port") for p in piece.get("ports") or ()}
    for entry in piece.get("endpoints") or ():
        conditions = entry.get("conditions") or {}
        # Several addresses of one entry are interchangeable.
        for address in (entry.get("addresses") or ())[:1]:
            yield (
                (entry.get("targetRef") or {}).get("uid") or address,
                _Place(
                    ipv6=":" in address,
                    address=address,
                    engine=ports.get(ENGINE_PORT_NAME) or ENGINE_PORT,
                    supervisor=ports.get(SUPERVISOR_PORT_NAME) or SUPERVISOR_PORT,
                    ready=conditions.get("ready") is not False,
                    terminating=conditions.get("terminating") is True,
                ),
            )
