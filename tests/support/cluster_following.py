"""A ClusterSource that is followed, and what it has told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from kubernetes.aio.client.configuration import Configuration

from pumas_server.router.cluster_access import ClusterAccess, cluster_access
from pumas_server.router.cluster_source import ClusterSource
from pumas_server.router.source import ModelRecord
from support.api_server import MODELS, SLICES, ScriptedApiServer
from support.eventually import eventually

SECRET = b"secret"


@dataclass
class Followed:
    """What a source has told so far."""

    server: ScriptedApiServer
    told: list[tuple[ModelRecord, ...]] = field(default_factory=list)

    def names(self) -> list[str]:
        """The models of the newest listing; none before the first."""
        return sorted(r.model.metadata.name for r in self.told[-1]) if self.told else []

    async def until_names(self, *names: str) -> None:
        await eventually(lambda: self.told and self.names() == list(names), f"it tells {names}")

    async def until_watching(self) -> None:
        server = self.server
        await eventually(lambda: server.watching(MODELS) and server.watching(SLICES), "it watches")


@asynccontextmanager
async def access_to(server: ScriptedApiServer) -> AsyncIterator[ClusterAccess]:
    configuration = Configuration()
    configuration.host = server.url
    async with cluster_access(configuration) as access:
        yield access


@asynccontextmanager
async def following(server: ScriptedApiServer, *namespaces: str) -> AsyncIterator[Followed]:
    async with access_to(server) as access:
        followed = Followed(server)

        async def follow() -> None:
            source = ClusterSource(access, namespaces, SECRET)
            async with aclosing(cast(Any, source.watch())) as listings:
                async for records in listings:
                    followed.told.append(records)

        task = asyncio.create_task(follow())
        try:
            yield followed
        finally:
            assert not task.done(), "following never ends by itself"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            left = [t for t in asyncio.all_tasks() if t.get_name().startswith("follow ")]
            assert left == []
