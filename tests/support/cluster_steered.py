"""A model in a scripted API server, and routers that steer it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from pumas_crds.demand import demand_lease
from pumas_crds.served_model import ServedModel
from pumas_server.router.cluster_steering import ClusterSteering
from pumas_server.router.steering import Steering
from support.api_server import ScriptedApiServer
from support.cluster_following import access_to

HOME = "pumas-system"
MODELS = "/apis/serving.pumas.dev/v1alpha1/namespaces/team/servedmodels"
SCALE = f"{MODELS}/tiny/scale"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
NAME = demand_lease("uid-of-tiny")
LEASE = f"{LEASES}/{NAME}"


@asynccontextmanager
async def steering(
    server: ScriptedApiServer,
    identity: str = "router-a",
    clock: Callable[[], datetime] = lambda: datetime(2030, 1, 1, tzinfo=UTC),
) -> AsyncIterator[Steering]:
    """A router's steering."""
    async with access_to(server) as access:
        yield ClusterSteering(access, HOME, identity, clock)


def seen(server: ScriptedApiServer) -> ServedModel:
    """The model as a router reads it now."""
    return ServedModel.model_validate(server.store.find(MODELS, "tiny"))


def replicas(server: ScriptedApiServer) -> int:
    """How many are wanted."""
    body = server.store.find(MODELS, "tiny")
    assert body is not None
    found: int = body["spec"]["replicas"]
    return found


def lease(server: ScriptedApiServer) -> dict[str, Any]:
    """The model's demand Lease."""
    found = server.store.find(LEASES, NAME)
    assert found is not None
    return found


def sent(server: ScriptedApiServer) -> list[str]:
    """Methods and paths of all requests."""
    return [f"{asked.method} {asked.path}" for asked in server.asked]
