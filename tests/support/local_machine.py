"""A node and its router in the test's own loop, as `pumas serve` puts them together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp

from pumas_crds.served_model import ServedModel
from pumas_local.manifest_files import Manifests
from pumas_local.node import Node
from pumas_operator.rest import Uses
from pumas_server.router.app import Router
from pumas_server.router.catalog import Catalog
from pumas_server.router.catalog_row import Row
from pumas_server.router.listener import listen
from pumas_server.router.server import serving
from support.one_cpu import on_one_cpu
from support.routers import TEST_SETTINGS, FixedSource, RunningRouter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def running_node(node: Node) -> AsyncIterator[Node]:
    """A node that runs until the block ends; each of its engines has one thread."""
    with on_one_cpu():
        await node.start()
        try:
            yield node
        finally:
            await node.stop()


@asynccontextmanager
async def machine(
    data: Path, clock: Clock, *models: ServedModel, managed: bool = True
) -> AsyncIterator[RunningRouter]:
    """Serve the models until the block ends."""
    async with running_node(Node(Manifests(models), data, uses=Uses(clock))) as node:
        router = Router(node.source, replace(TEST_SETTINGS, model_management=managed), node)
        listener = listen("127.0.0.1", 0)
        port = listener.getsockname()[1]
        async with (
            serving(router, listener),
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
        ):
            yield RunningRouter(router, FixedSource(), client, port)


async def when(running: RunningRouter, holds: Callable[[Row], bool], alias: str = "llm") -> Row:
    """The model of that alias, once it is so."""

    def found(catalog: Catalog) -> Row | None:
        return next((row for row in catalog.rows if row.alias == alias and holds(row)), None)

    async with asyncio.timeout(60):
        catalog = await running.router.workers.until(lambda catalog: found(catalog) is not None)
    row = found(catalog)
    assert row is not None
    return row
