"""A whole installation in virtual time: API server, Kubernetes, operator, routers, one model's name.

It knows the truth (what pods do, who asked for what, what was disturbed when), so that whoever
looks at what operator and routers say can compare.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pumas_operator.kinds import SERVED_MODEL, Kind
from support.cluster_controllers import TEAM, Controllers
from support.cluster_objects import model_object
from support.kubelet_pods import Phase
from support.living_operator import LivingOperator
from support.living_router import Call, LivingRouter
from support.shared_api import Change, SharedApi

BASE = datetime(2030, 1, 1, tzinfo=UTC)
IDLE_SECONDS, HOLD_SECONDS = 60, 20
ACTIVATION = {"onDemand": True, "idleSeconds": IDLE_SECONDS, "holdSeconds": HOLD_SECONDS}


class Told(NamedTuple):
    """What a model's object said from then on."""

    at: float
    uid: str
    replicas: int
    state: str
    reason: str


class World:
    """Made inside a loop; `close` ends all that runs."""

    def __init__(self, hits: Counter[str]) -> None:
        self.hits = hits
        self.api = SharedApi()
        self.operator_skew = self.router_skew = timedelta()
        self.clock_offset = 5000.0
        self.controllers = Controllers(self.api, lambda: f"{self.wall(timedelta()):%FT%TZ}")
        self.told: list[Told] = []
        self.deleted: set[str] = set()
        self.most_wanted: dict[str, int] = defaultdict(int)
        self.calls: list[Call] = []
        """All whose end was not judged yet."""
        self.asks: list[asyncio.Task[str]] = []
        self.unloads_until = -1.0
        """Until when a router may be carrying an unload out."""
        self.used_at: dict[str, float] = {}
        self.stirred_at = self.unkind_at = 0.0
        self.engine_failed_at = -1.0
        self.blind_until = 0.0
        self.faults: list[str] = []
        """What was seen to be wrong where no exception could be raised."""
        self.generation = 0
        self.sources = 0
        self.routers: list[LivingRouter] = []
        self._named = 0
        self.operator: LivingOperator | None = None
        self.api.listeners.append(self._heard)

    @property
    def time(self) -> float:
        """Virtual seconds."""
        return asyncio.get_running_loop().time()

    def wall(self, skew: timedelta) -> datetime:
        """What a clock on the wall says."""
        return BASE + timedelta(seconds=self.time) + skew

    @property
    def model(self) -> dict[str, Any] | None:
        """The model's object."""
        return self.api.cluster.objects.get(SERVED_MODEL, {}).get((TEAM, "tiny"))

    @property
    def uid(self) -> str:
        """Of the model that is there; empty when none is."""
        return "" if self.model is None else str(self.model["metadata"]["uid"])

    @property
    def replicas(self) -> int:
        """How many pods are wanted."""
        return 0 if self.model is None else int(self.model["spec"].get("replicas", 1))

    @property
    def status(self) -> dict[str, Any]:
        """What the operator says of it."""
        return {} if self.model is None else self.model.get("status", {})

    def start_operator(self) -> None:
        """A process."""
        self.operator = LivingOperator(
            self.api,
            self.controllers,
            lambda: self.time + self.clock_offset,
            lambda: self.wall(self.operator_skew),
        )

    def start_router(self) -> LivingRouter:
        """Another process."""
        self._named += 1
        wall = lambda: self.wall(self.router_skew)  # noqa: E731
        router = LivingRouter(self.api, self.controllers, f"router-{self._named}", wall)
        self.routers.append(router)
        return router

    def make_model(self, replicas: int) -> None:
        """Somebody makes the model, after another of its name or for the first time."""
        self.generation += 1
        spec = {"source": self.source(), "replicas": replicas, "activation": ACTIVATION}
        created = f"{self.wall(timedelta()):%FT%TZ}"
        body = model_object("tiny", uid=f"uid-{self.generation}", created=created, **spec)
        self.api.cluster.put(SERVED_MODEL, body)

    def change_model(self, **spec: Any) -> None:
        """Somebody changes its spec."""
        assert self.model is not None
        metadata = self.model["metadata"]
        metadata = metadata | {"generation": metadata["generation"] + 1}
        spec = self.model["spec"] | spec
        self.api.cluster.put(SERVED_MODEL, self.model | {"metadata": metadata, "spec": spec})

    def source(self) -> dict[str, Any]:
        """Where the file is, of the newest revision."""
        file = f"tiny-{self.sources}.gguf"
        return {"huggingFace": {"repo": "team/tiny", "file": file}}

    def stir(self) -> None:
        """For a while nobody needs to know the truth."""
        self.stirred_at = self.unkind_at = self.time

    def note_trouble(self) -> None:
        """What lasts keeps the truth from being known, and calls from being answered, till now."""
        operator, controllers = self.operator, self.controllers
        watches = operator.watches if operator is not None else None
        stalled = watches is None or watches.stalled or any(r.way.stalled for r in self.routers)
        if self.api.away or stalled or self.time < self.blind_until:
            self.stir()
        failing = any(
            p.phase not in (Phase.STARTING, Phase.READY) for p in controllers.pods.values()
        )
        if failing or not (controllers.obliges and controllers.file_good):
            self.unkind_at = self.time

    @property
    def calm_for(self) -> float:
        """How long nothing has kept operator and routers from knowing the truth."""
        return self.time - max(self.stirred_at, self.controllers.moved_at)

    def describe(self) -> str:
        """For people who look at a failure."""
        pods = [(p.name, p.phase.value, p.ends_at) for p in self.controllers.pods.values()]
        heard = self.operator.heard if self.operator is not None else {}
        return f"{self.uid} wants {self.replicas}; {pods}; heard {heard}; {self.status}"

    async def crash_operator(self) -> None:
        """It is killed."""
        operator, self.operator = self.operator, None
        if operator is not None:
            await operator.crash()

    async def crash_router(self, router: LivingRouter) -> None:
        """It is killed."""
        if router in self.routers:
            self.routers.remove(router)
            await router.crash()

    async def close(self) -> None:
        """End all."""
        self.controllers.close()
        for ask in self.asks:
            ask.cancel()
        await asyncio.gather(*self.asks, return_exceptions=True)
        for router in tuple(self.routers):
            await self.crash_router(router)
        await self.crash_operator()

    def _heard(self, kind: Kind, change: Change) -> None:
        if self.operator is not None:
            self.operator.moved()
        if kind is not SERVED_MODEL:
            return
        metadata, spec = change.body["metadata"], change.body["spec"]
        if change.type == "DELETED":
            self.deleted.add(metadata["uid"])
            return
        status, replicas = change.body.get("status", {}), spec.get("replicas", 1)
        self.most_wanted[metadata["uid"]] = max(self.most_wanted[metadata["uid"]], replicas)
        reason = status.get("error", {}).get("reason", "")
        state = status.get("loadState", "unloaded")
        self.told.append(Told(self.time, metadata["uid"], replicas, state, reason))
        self.hits[f"loadState {state}"] += 1
