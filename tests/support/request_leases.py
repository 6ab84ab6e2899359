"""Request records over a scripted API server: one key, and who asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pumas_server.router.lmsp.judgement import CLOCK_MARGIN_SECONDS
from pumas_server.router.lmsp.lease_records import LeaseRecords
from pumas_server.router.lmsp.request_lease import lease_name
from pumas_server.router.lmsp.request_records import (
    CLAIM_SECONDS,
    KEPT_SECONDS,
    Claimed,
    RequestRecords,
    StoredAnswer,
)
from support.api_server import ScriptedApiServer
from support.cluster_following import access_to
from support.told_clock import ToldClock

HOME = "pumas-system"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
LEASE = f"{LEASES}/{lease_name('me', 'key')}"

#: Principal, key, fingerprint.
SAME = ("me", "key", "same")
OTHER = ("me", "key", "other")
ANSWER = StoredAnswer(202, '{"state": "loading"}')

#: Just behind the ends of a claim and of an answer, by every clock that agrees.
DEADLINE = CLAIM_SECONDS + CLOCK_MARGIN_SECONDS + 1
DAY = KEPT_SECONDS + CLOCK_MARGIN_SECONDS + 1


@asynccontextmanager
async def keeping(server: ScriptedApiServer, clock: ToldClock) -> AsyncIterator[LeaseRecords]:
    """A router's records."""
    async with access_to(server) as access:
        yield LeaseRecords(access, HOME, clock)


async def claimed(records: RequestRecords) -> Claimed:
    """The claim of a key that is free."""
    claim = await records.claim(*SAME)
    assert isinstance(claim, Claimed)
    return claim


def found(server: ScriptedApiServer) -> dict[str, Any] | None:
    """The key's Lease."""
    return server.store.find(LEASES, LEASE.rpartition("/")[2])


def sent(server: ScriptedApiServer) -> list[str]:
    """The methods of all requests."""
    return [asked.method for asked in server.asked]
