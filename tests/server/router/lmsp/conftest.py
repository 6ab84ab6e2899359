"""The six models of the cases behind a real router, and records over a scripted API server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from pumas_server.router.lmsp.lease_records import LeaseRecords
from support.api_server import ScriptedApiServer
from support.catalogue import RunningCatalogue, running_catalogue
from support.request_leases import keeping
from support.told_clock import ToldClock


@pytest_asyncio.fixture
async def catalogue() -> AsyncIterator[RunningCatalogue]:
    """Fresh for every test."""
    async with running_catalogue() as running:
        yield running


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    async with ScriptedApiServer().serving() as scripted:
        yield scripted


@pytest.fixture
def clock() -> ToldClock:
    return ToldClock()


@pytest.fixture
async def records(server: ScriptedApiServer, clock: ToldClock) -> AsyncIterator[LeaseRecords]:
    async with keeping(server, clock) as kept:
        yield kept
