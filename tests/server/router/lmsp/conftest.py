"""One router's records over a scripted API server, and its clock."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pumas_server.router.lmsp.lease_records import LeaseRecords
from support.api_server import ScriptedApiServer
from support.request_leases import keeping
from support.told_clock import ToldClock


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
