"""One API server in memory for operator and routers: a `FakeCluster` with a history that watches read.

Every process has its own way to it, which takes time, can be cut, lose an answer, or be the place
where the process dies. What is asked of `/scale` is kept, whoever asks.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pumas_operator.cluster import Refused, Unreachable
from pumas_operator.json_object import Json
from pumas_operator.kinds import EVENT, Kind
from pumas_operator.requests import Request
from support.fake_cluster import FakeCluster

SLICE = Kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
#: How long a request, and how long an answer, is on its way.
WAY_SECONDS = 0.02


class Change(NamedTuple):
    """One event, as a watch tells it."""

    version: int
    type: str
    body: dict[str, Any]


class Scaling(NamedTuple):
    """One change of `/scale` that was carried out."""

    at: float
    who: str
    uid: str
    before: int
    after: int


@dataclass
class SharedApi:
    """The API server."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    away: bool = False
    history: dict[Kind, list[Change]] = field(default_factory=lambda: defaultdict(list))
    forgotten: int = 0
    """Watches that would go on from before this version are refused with 410."""
    scalings: list[Scaling] = field(default_factory=list)
    listeners: list[Callable[[Kind, Change], None]] = field(default_factory=list)
    scaled: Callable[[Scaling], None] = lambda scaling: None
    """Told of each, right after it was done."""
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced, at every change of anything."""

    def __post_init__(self) -> None:
        self.cluster.changed = lambda kind, body: self._tell(kind, "MODIFIED", body)
        self.cluster.gone = self._gone

    @property
    def version(self) -> int:
        """The newest."""
        return self.cluster._version

    def wake(self) -> None:
        """Have all watches look again."""
        moved, self.moved = self.moved, asyncio.Event()
        moved.set()

    def forget(self) -> None:
        """History before now is compacted away."""
        self.forgotten = self.version

    def go_away(self, away: bool) -> None:
        """The API server answers nobody, or everybody again."""
        self.away = away
        self.wake()

    def all(self, kind: Kind) -> list[dict[str, Any]]:
        """Every object of a kind, as it is."""
        return list(self.cluster.objects.get(kind, {}).values())

    async def do(self, who: str, request: Request) -> Json:
        """Carry a request out."""
        if f"/{EVENT.plural}" in request.path:
            return {"items": []}  # nobody here looks at Events
        before = self._replicas(request)
        answer = await self.cluster.send(request)
        if before is not None and request.body is not None:
            told: Any = answer
            after = told["spec"]["replicas"]
            now = asyncio.get_running_loop().time()
            self.scalings.append(Scaling(now, who, told["metadata"]["uid"], before, after))
            self.scaled(self.scalings[-1])
        return answer

    def _replicas(self, request: Request) -> int | None:
        if not request.path.endswith("/scale"):
            return None
        *_, namespace, _, name, _ = request.path.split("/")
        for held in self.cluster.objects.values():
            found = held.get((namespace, name))
            if found is not None and found["kind"] == "ServedModel":
                replicas: int = found["spec"].get("replicas", 1)
                return replicas
        return None

    def _gone(self, kind: Kind, body: dict[str, Any]) -> None:
        self.cluster._version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self._tell(kind, "DELETED", body)

    def _tell(self, kind: Kind, what: str, body: dict[str, Any]) -> None:
        change = Change(self.version, what, body)
        self.history[kind].append(change)
        for listener in self.listeners:
            listener(kind, change)
        self.wake()


@dataclass
class Way:
    """One process's way to the API server. Implements `pumas_operator.cluster.Cluster`."""

    api: SharedApi
    who: str
    loses: bool = False
    """The next write is done, and its answer is lost."""
    dies: Callable[[], None] | None = None
    """Called after the next write, whose answer never comes."""
    conflicts: int = 0
    """Writes that were refused since somebody was faster."""

    async def send(self, request: Request) -> Json:
        """Carry it out, as far as the way goes."""
        await asyncio.sleep(WAY_SECONDS)
        if self.api.away:
            raise Unreachable("away")
        try:
            answer = await self.api.do(self.who, request)
        except Refused as error:
            self.conflicts += error.status == 409
            raise
        if request.method != "GET":
            await self._trouble()
        await asyncio.sleep(WAY_SECONDS)
        return answer

    async def _trouble(self) -> None:
        if self.dies is not None:
            dies, self.dies = self.dies, None
            asyncio.get_running_loop().call_soon(dies)
            await asyncio.Event().wait()
        if self.loses:
            self.loses = False
            raise Unreachable("the answer is lost")
