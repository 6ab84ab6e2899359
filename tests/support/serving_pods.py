"""Serving pods as a router sees them: a scripted engine and a supervisor that says what a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from pumas_crds.served_model import ServedModel
from pumas_server.router.source import Endpoint, ModelRecord
from support.upstream import Conversation, ScriptedUpstream


class ServingPod:
    """An engine that can be away, and its supervisor, which is there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.engine = ScriptedUpstream()
        self.supervisor = ScriptedUpstream(listing=self._tell)
        self.state = "ready"
        """What `/descriptor` says."""
        self.takes = ["text"]
        """The kinds of content that its engine declares."""
        self.ready = True
        """What `/readyz` says."""
        self.asked_ready: list[float] = []
        """When `/readyz` was asked."""
        self._engine: AsyncExitStack | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ServingPod]:
        async with self.supervisor.serving():
            await self.engine_up()
            try:
                yield self
            finally:
                await self.engine_down()

    async def engine_up(self) -> None:
        """Listen, on the same port as before."""
        self._engine = AsyncExitStack()
        await self._engine.enter_async_context(self.engine.serving())

    async def engine_down(self) -> None:
        """Connections break, and new ones are refused."""
        if self._engine is not None:
            await self._engine.aclose()
            self._engine = None

    def endpoint(self, *, ready: bool = True) -> Endpoint:
        return Endpoint(f"uid-of-{self.name}", self.engine.url, self.supervisor.url, ready, "key")

    async def _tell(self, talk: Conversation) -> None:
        if talk.request.path == "/readyz":
            self.asked_ready.append(asyncio.get_running_loop().time())
            await talk.whole(200 if self.ready else 503, b"{}")
            return
        assert talk.request.path == "/descriptor"
        runtime = {"slots": 4, "input_modalities": self.takes, "output_modalities": ["text"]}
        told: dict[str, Any] = {
            "state": self.state,
            "boot_id": "boot",
            "mode": "generate",
            "runtime": runtime | {"context_tokens": 512},
        }
        await talk.whole(200, json.dumps(told).encode())


def pod_record(*pods: ServingPod, alias: str = "llm") -> ModelRecord:
    """The record of a loaded model that these pods serve."""
    model = ServedModel.model_validate(
        {
            "metadata": {"name": alias, "uid": f"uid-of-{alias}"},
            "spec": {"source": {"path": "/weights/tiny.gguf"}},
            "status": {"loadState": "loaded"},
        }
    )
    return ModelRecord(model, "hash", tuple(pod.endpoint() for pod in pods))
