"""Model records from what the Kubernetes API holds: ServedModels and EndpointSlices. Pure.

A slice belongs to the model whose uid its label tells: Kubernetes copies a Service's labels. An address counts as ready when the
slice says so, or says nothing; one that is terminating never does, also while it still serves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from pumas_crds.engine_key import engine_key
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import (
    ENGINE_PORT,
    ENGINE_PORT_NAME,
    MODEL_UID_LABEL,
    SUPERVISOR_PORT,
    SUPERVISOR_PORT_NAME,
    Runtime,
)
from pumas_server.router.source import Endpoint, ModelRecord

Json = Mapping[str, Any]

EXTERNAL_UID = "external"


def build_records(
    models: Iterable[Json], slices: Iterable[Json], secret: bytes
) -> tuple[ModelRecord, ...]:
    """The records of all models that can be read; one that cannot is the API server's to refuse."""
    by_model: dict[str, list[Json]] = defaultdict(list)
    for piece in slices:
        uid = piece.get("metadata", {}).get("labels", {}).get(MODEL_UID_LABEL)
        if uid is not None:
            by_model[uid].append(piece)
    records = []
    for body in models:
        try:
            model = ServedModel.model_validate(body)
        except ValidationError:
            continue
        records.append(_record(model, body, by_model, secret))
    return tuple(records)


def _record(
    model: ServedModel,
    body: Json,
    by_model: Mapping[str, list[Json]],
    secret: bytes,
) -> ModelRecord:
    metadata, spec = model.metadata, model.spec
    status = body.get("status", {})
    digest = str(status.get("specHash", ""))
    if spec.runtime is Runtime.EXTERNAL:
        endpoints: tuple[Endpoint, ...] = ()
        if spec.endpoint is not None and model.status.error is None:
            endpoints = (Endpoint(EXTERNAL_UID, spec.endpoint.root(), None, ready=True),)
        return ModelRecord(model, digest, endpoints)
    pieces = by_model.get(metadata.uid, [])
    key = engine_key(secret, metadata.uid)
    return ModelRecord(model, digest, tuple(e for p in pieces for e in _endpoints(p, key)))


def _endpoints(piece: Json, key: str) -> Iterator[Endpoint]:
    ports = {p.get("name"): p.get("port") for p in piece.get("ports") or ()}
    engine = ports.get(ENGINE_PORT_NAME) or ENGINE_PORT
    supervisor = ports.get(SUPERVISOR_PORT_NAME) or SUPERVISOR_PORT
    for entry in piece.get("endpoints") or ():
        conditions = entry.get("conditions") or {}
        uid = (entry.get("targetRef") or {}).get("uid", "")
        ready = conditions.get("ready") is not False and conditions.get("terminating") is not True
        for address in entry.get("addresses") or ():
            host = f"[{address}]" if ":" in address else address
            yield Endpoint(
                uid=uid or address,
                url=f"http://{host}:{engine}",
                supervisor_url=f"http://{host}:{supervisor}",
                ready=ready,
                api_key=key,
            )
