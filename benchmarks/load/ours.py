"""The router of a cluster, with its models from a manifest instead of an API server.

python ours.py MANIFEST PORT [--loop asyncio]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvloop

from pumas_local.manifest_files import read_manifests
from pumas_server.router.app import Router
from pumas_server.router.lasting_objects import set_lasting_apart
from pumas_server.router.listener import listen
from pumas_server.router.server import serving
from pumas_server.router.settings import RouterSettings
from pumas_server.router.source import EXTERNAL_UID, Endpoint, ModelRecord
from pumas_server.telemetry import configure_logging

IN_FLIGHT = 8192


class Listed:
    """A source whose models never change."""

    def __init__(self, records: tuple[ModelRecord, ...]) -> None:
        self._records = records

    async def watch(self) -> AsyncIterator[tuple[ModelRecord, ...]]:
        """See `ModelSource`."""
        yield self._records
        await asyncio.Event().wait()


def read_records(manifest: Path) -> tuple[ModelRecord, ...]:
    """The external models of a manifest."""
    records = []
    for model in read_manifests([manifest]).models:
        endpoint = model.spec.endpoint
        assert endpoint is not None
        place = Endpoint(uid=EXTERNAL_UID, url=endpoint.root(), supervisor_url=None, ready=True)
        records.append(ModelRecord(model, "", (place,)))
    return tuple(records)


async def serve(manifest: Path, port: int) -> None:
    """Serve for ever."""
    configure_logging()
    settings = RouterSettings(
        max_in_flight=IN_FLIGHT, external_in_flight=IN_FLIGHT, propagation_seconds=0
    )
    async with serving(Router(Listed(read_records(manifest)), settings), listen("127.0.0.1", port)):
        set_lasting_apart()
        await asyncio.Event().wait()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("manifest", type=Path)
    arguments.add_argument("port", type=int)
    arguments.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    asked = arguments.parse_args()
    run = uvloop.run if asked.loop == "uvloop" else asyncio.run
    sys.exit(run(serve(asked.manifest, asked.port)))
