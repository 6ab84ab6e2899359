"""A model that sleeps, its pod, and whoever carries out what the router asks for, under a test's hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pumas_crds.served_model import ServedModel
from pumas_server.router.source import ModelRecord
from pumas_server.router.steering import Outdated, Unsteerable
from support.routers import TEST_SETTINGS, FixedSource, RunningRouter, running_router
from support.serving_pods import ServingPod

RUNTIME = {
    "mode": "generate",
    "inputModalities": ["text"],
    "outputModalities": ["text"],
    "contextTokens": 512,
}


@dataclass
class SleepingModel:
    """Implements `pumas_server.router.steering.Steering` for one model."""

    pod: ServingPod
    source: FixedSource = field(default_factory=FixedSource)
    activation: dict[str, Any] = field(default_factory=lambda: {"onDemand": True})
    replicas: int = 0
    suspend: bool = False
    known: bool = True
    """Whether its file was inspected and its engine ever ran."""
    senses: tuple[str, ...] = ()
    """What its projector lets it take, by its inspected files."""
    version: int = 1
    state: str = "unloaded"
    error: dict[str, str] | None = None
    scaled: list[int] = field(default_factory=list)
    renewed: int = 0
    asked_again: int = 0
    outdated: int = 0
    """So many times somebody else is faster."""
    away: bool = False
    """Nothing can be carried out."""

    def record(self) -> ModelRecord:
        status: dict[str, Any] = {
            "loadState": self.state,
            "specHash": "hash",
            **({"runtime": RUNTIME} if self.known else {}),
            **({"file": self._file()} if self.senses else {}),
            "lastReplicas": 2,
        }
        model = ServedModel.model_validate(
            {
                "metadata": {
                    "name": "llm",
                    "uid": "uid-of-llm",
                    "resourceVersion": str(self.version),
                },
                "spec": {
                    "source": {"path": "/weights/tiny.gguf"},
                    "replicas": self.replicas,
                    "suspend": self.suspend,
                    "activation": self.activation,
                },
                "status": status | ({"error": self.error} if self.error else {}),
            }
        )
        there = self.state == "loaded"
        return ModelRecord(model, "hash", (self.pod.endpoint(),) if there else ())

    def _file(self) -> dict[str, Any]:
        return {"architecture": "llama", "projector": {"inputModalities": list(self.senses)}}

    def change(self, **members: Any) -> None:
        """Somebody changes the model, and the watch tells."""
        for name, value in members.items():
            setattr(self, name, value)
        self.version += 1
        self.source.put(self.record())

    def delete(self) -> None:
        self.source.put()

    async def scale(self, model: ServedModel, replicas: int) -> None:
        if self.away:
            raise Unsteerable("away")
        if self.outdated:
            self.outdated -= 1
            self.change()
        if model.metadata.resource_version != str(self.version):
            raise Outdated
        self.scaled.append(replicas)
        self.change(replicas=replicas, state="requested" if replicas else "unloading")

    async def renew(self, model: ServedModel) -> None:
        if self.away:
            raise Unsteerable("away")
        self.renewed += 1

    async def ask_again(self, model: ServedModel) -> None:
        self.asked_again += 1


@asynccontextmanager
async def sleeping(
    max_held: int = 1024, managed: bool = False, **activation: Any
) -> AsyncIterator[tuple[RunningRouter, SleepingModel]]:
    """A router before one model that is at zero; nothing of it may be left at the end."""
    async with ServingPod("a").serving() as pod:
        model = SleepingModel(pod, activation={"onDemand": True} | activation)
        settings = replace(TEST_SETTINGS, max_held=max_held, model_management=managed)
        async with running_router(
            model.record(), settings=settings, ready=False, source=model.source, steering=model
        ) as running:
            await running.until(lambda c: bool(c.rows))
            yield running, model
            await running.idle()
            assert running.router.activator.held == 0
