"""The models of the catalogue's cases, in their states, and a LoadControl that moves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from multidict import CIMultiDictProxy
from yarl import URL

from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.vocabulary import LoadState
from pumas_server.router.lmsp.load_control import ModelGone
from pumas_server.router.lmsp.request_records import RequestRecords
from pumas_server.router.source import Endpoint, ModelRecord
from support.eventually import eventually
from support.routers import FixedSource, RunningRouter, running_router

BASE = "/lmsp/v1/models"

A = "qwen3:14b-q4_k_m"
"""Installed, on demand, chats with tools; alias `qwen`."""
E = "org/emb:1"
"""Ready, embeddings alone."""
L, X, C, U = "slow", "bad", "cold", "going"
"""Loading; failed; installed and not on demand; unloading."""

DIGEST = "sha256:" + "8f" * 32
FAILED = {"reason": "EngineFailed", "message": "The engine ended with signal 6."}
_HASH = "hash"


def catalogued(
    alias: str,
    load_state: str = "unloaded",
    *,
    mode: str = "generate",
    tools: bool = False,
    ready: bool = False,
    endpoints: tuple[Endpoint, ...] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> ModelRecord:
    """A llama.cpp model that has run once; `spec` is camelCase."""
    body = {
        "metadata": {"name": "m", "uid": f"uid-of-{alias}", "resourceVersion": "1"},
        "spec": {"alias": alias, "source": {"path": "/weights/m.gguf"}} | spec,
        "status": {
            "observedGeneration": 1,
            "loadState": load_state,
            "specHash": _HASH,
            "file": {"architecture": "qwen3", "digest": DIGEST, "name": "Of the file"},
            "runtime": {
                "mode": mode,
                "contextTokens": 4096,
                "inputModalities": ["text"],
                "outputModalities": ["text"],
                "toolCalls": tools,
                "device": "gpu 24/36",
            },
        }
        | (status or {}),
    }
    pods = (pod(ready=ready),) if ready else ()
    model = ServedModel.model_validate(body)
    return ModelRecord(model, _HASH, pods if endpoints is None else endpoints)


def pod(*, ready: bool = True) -> Endpoint:
    """An address where nobody is: this catalogue asks nobody."""
    nowhere = "http://127.0.0.1:1"
    return Endpoint("pod", nowhere, nowhere, ready)


def six() -> tuple[ModelRecord, ...]:
    """The models of the cases."""
    title = {"displayName": "Qwen3 14B", "aliases": ["qwen"], "family": "qwen3"}
    on_demand = {"onDemand": True}
    return (
        catalogued(A, tools=True, catalogue=title, activation=on_demand),
        catalogued(E, "loaded", mode="embed", ready=True),
        catalogued(L, "loading"),
        catalogued(X, "failed", status={"error": FAILED}, activation=on_demand),
        catalogued(C),
        catalogued(U, "unloading"),
    )


class ScriptedModels:
    """Models that are loaded and unloaded by being asked to, one step at a time."""

    def __init__(self, *records: ModelRecord) -> None:
        self._records = {record.model.catalogue_id: record for record in records}
        self.source: FixedSource | None = None
        self.starts: list[str] = []
        """Ids of the models that were begun to load."""
        self.asked: list[str] = []
        """Ids of the models of all actions."""
        self.fault: Exception | None = None
        """What every action ends with."""
        self.pass_on = asyncio.Event()
        """Actions wait for it."""
        self.pass_on.set()

    @property
    def records(self) -> tuple[ModelRecord, ...]:
        return tuple(self._records.values())

    async def load(self, model_uid: str) -> LoadState:
        """See `LoadControl`."""
        model_id, state = await self._look(model_uid)
        if state is LoadState.LOADED:
            return state
        if state is not LoadState.LOADING:
            self.starts.append(model_id)
            self.become(model_id, LoadState.LOADING)
        return LoadState.LOADING

    async def unload(self, model_uid: str) -> LoadState:
        """See `LoadControl`."""
        model_id, state = await self._look(model_uid)
        if state in (LoadState.UNLOADED, LoadState.FAILED):
            return state
        self.become(model_id, LoadState.UNLOADING)
        return LoadState.UNLOADING

    async def _look(self, model_uid: str) -> tuple[str, LoadState]:
        found = [r for r in self.records if r.model.metadata.uid == model_uid]
        if not found:
            raise ModelGone
        model = found[0].model
        self.asked.append(model.catalogue_id)
        await self.pass_on.wait()
        if self.fault is not None:
            raise self.fault
        return model.catalogue_id, model.status.load_state

    def become(self, model_id: str, state: LoadState, **status: Any) -> None:
        """Put a model in a state, as the operator would."""
        record = self._records[model_id]
        told = record.model.status.model_dump(by_alias=True) | {"error": None} | status
        moved = ServedModelStatus.model_validate(told | {"loadState": state})
        endpoints = (pod(),) if state is LoadState.LOADED else ()
        model = record.model.model_copy(update={"status": moved})
        self.put(replace(record, model=model, endpoints=endpoints))

    def put(self, record: ModelRecord) -> None:
        """Add a model, or replace it."""
        self._records[record.model.catalogue_id] = record
        self._publish()

    def remove(self, model_id: str) -> None:
        """Delete a model."""
        del self._records[model_id]
        self._publish()

    def _publish(self) -> None:
        if self.source is not None:
            self.source.put(*self.records)


@dataclass(frozen=True)
class Told:
    """An answer."""

    status: int
    headers: CIMultiDictProxy[str]
    raw: bytes
    json: Any


@dataclass
class RunningCatalogue:
    """A router in front of scripted models, and a client that writes paths as they are."""

    running: RunningRouter
    models: ScriptedModels

    async def ask(
        self, method: str, path: str, body: bytes = b"", **headers: str | list[str]
    ) -> Told:
        """One request; underscores in names of header fields stand for hyphens."""
        lines = [
            (name.replace("_", "-"), line)
            for name, value in headers.items()
            for line in ([value] if isinstance(value, str) else value)
        ]
        url = URL(path, encoded=True)
        async with self.running.client.request(method, url, data=body, headers=lines) as answer:
            raw = await answer.read()
            value = await answer.json(content_type=None) if raw[:1] == b"{" else None
            return Told(answer.status, answer.headers, raw, value)

    async def get(self, path: str = BASE, **headers: str | list[str]) -> Told:
        """GET."""
        return await self.ask("GET", path, b"", **headers)

    async def post(self, path: str, body: bytes = b"", **headers: str | list[str]) -> Told:
        """POST."""
        return await self.ask("POST", path, body, **headers)

    async def seen(self) -> None:
        """Wait until the router has the models as they are now."""
        await eventually(
            lambda: self.running.router.workers.records == self.models.records, "the models"
        )

    async def ids(self, query: str) -> list[str]:
        """Ids of a list, which is a success."""
        told = await self.get(f"{BASE}?{query}")
        assert told.status == 200, told.raw
        return [model["id"] for model in told.json["data"]]


@asynccontextmanager
async def running_catalogue(
    *records: ModelRecord, managed: bool = True, keyed: RequestRecords | None = None
) -> AsyncIterator[RunningCatalogue]:
    """Serve the catalogue of these models, by default of the six."""
    models = ScriptedModels(*(records or six()))
    control = models if managed else None
    async with running_router(
        *models.records, ready=False, load_control=control, keyed=keyed
    ) as running:
        models.source = running.source
        catalogue = RunningCatalogue(running, models)
        await catalogue.seen()
        yield catalogue


def assert_problem(
    told: Told, code: str, status: int, outcome: str = "not_admitted"
) -> dict[str, Any]:
    """The answer is this problem, and says so everywhere alike; and whether it had an effect."""
    assert told.status == status, told.raw
    assert told.headers["content-type"] == "application/problem+json"
    assert told.headers["cache-control"] == "no-store"
    assert told.headers["x-pumas-outcome"] == outcome
    problem: dict[str, Any] = told.json
    assert (problem["code"], problem["status"]) == (code, status)
    assert problem["type"] == f"/lmsp/v1/problems/{code}"
    assert problem["instance"] == f"urn:uuid:{told.headers['x-request-id']}"
    assert isinstance(problem["title"], str)
    assert isinstance(problem["detail"], str)
    return problem
