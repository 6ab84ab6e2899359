"""Two router processes before one scripted API server, whose requests a test can hold.

They share nothing but what the API server keeps. A test plays the operator and owns the only pod.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy

from pumas_server.router.leases import collection, micro_time
from support.api_server import ScriptedApiServer, hang
from support.api_store import split_path
from support.cluster_objects import address, model_object, slice_object
from support.eventually import DEADLINE_SECONDS, eventually
from support.request_leases import DEADLINE
from support.router_process import HOME, RouterProcess
from support.routers import chat_operation
from support.serving_pods import ServingPod
from support.sleeping_model import RUNTIME

BASE = "/lmsp/v1/models"
MODELS = "/apis/serving.pumas.dev/v1alpha1/namespaces/team/servedmodels"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices"
LEASES = collection(HOME)
REPLICAS = 2
"""That a load asks for."""


@dataclass(frozen=True)
class Told:
    """An answer."""

    status: int
    headers: CIMultiDictProxy[str]
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)


@dataclass(frozen=True)
class Catalogue:
    """What a router lists, byte by byte."""

    raw: bytes
    etag: str
    revision: str


@dataclass
class Hold:
    """One request that an API server holds for ever, before or after it has done it."""

    step: str
    done: bool
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_reached(self) -> None:
        """It has come, and was done if it was to be."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.reached.wait()


def step_of(method: str, path: str, body: Any) -> str | None:
    """A request for a load, in two words; None for what a router asks anyway."""
    if path.endswith("/scale"):
        return f"{method} scale"
    name = body["metadata"]["name"] if method == "POST" else path.rpartition("/")[2]
    for purpose, word in (("request", "record"), ("demand", "demand")):
        if name.startswith(f"pumas-{purpose}-"):
            return f"{method} {word}"
    return None


class TwoRouters:
    """See the module."""

    def __init__(
        self,
        server: ScriptedApiServer,
        pod: ServingPod,
        folder: Path,
        client: aiohttp.ClientSession,
    ) -> None:
        self.server = server
        self.pod = pod
        self.client = client
        settings = {"PUMAS_MODEL_MANAGEMENT": "true", "PUMAS_WATCH_NAMESPACES": "team"}
        self.a, self.b = (
            RouterProcess(folder, server.url, HOSTNAME=name, **settings)
            for name in ("router-a", "router-b")
        )
        self.steps: list[str] = []
        """Requests for loads, in the order of coming."""
        self.replicas: dict[str, list[int]] = defaultdict(list)
        """By model: the numbers of pods that were wanted one after another."""
        self.scales: dict[str, list[int]] = defaultdict(list)
        """By model: what the API server answered to each `/scale`."""
        self._hold: Hold | None = None
        self._tell = server.store.changed
        server.store.changed = self._note
        server.elsewhere = self._answer

    @property
    def both(self) -> tuple[RouterProcess, RouterProcess]:
        return self.a, self.b

    def _note(self, path: str, kind: str, body: dict[str, Any]) -> None:
        self._tell(path, kind, body)
        if path == MODELS:
            known, now = self.replicas[body["metadata"]["name"]], body["spec"]["replicas"]
            if known[-1:] != [now]:
                known.append(now)

    async def _answer(self, request: web.Request) -> web.StreamResponse | None:
        raw = await request.read()
        step = step_of(request.method, request.path, json.loads(raw) if raw else None)
        if step is None:
            return None
        self.steps.append(step)
        hold = self._hold
        if hold is None or hold.step != step:
            return await self._carry_out(request)
        self._hold = None
        if hold.done:
            await self._carry_out(request)
        hold.reached.set()
        return await hang(request)

    async def _carry_out(self, request: web.Request) -> web.StreamResponse:
        answer = await self.server.carry_out(request)
        _, name, part = split_path(request.path)
        if part == "scale":
            self.scales[name].append(answer.status)
        return answer

    def loaded_once(self, name: str) -> bool:
        """Pods were asked for, and wanted from then on, by one request alone."""
        return self.replicas[name] == [0, REPLICAS] and self.scales[name].count(200) == 1

    def hold(self, step: str, *, done: bool) -> Hold:
        """Of the next such request no answer will come."""
        self._hold = Hold(step, done)
        return self._hold

    # What a client asks

    async def ask(
        self, router: RouterProcess, method: str, path: str, body: Any = None, key: str = ""
    ) -> Told:
        headers = {"Idempotency-Key": f'"{key}"'} if key else {}
        async with self.client.request(
            method, router.url + path, json=body, headers=headers
        ) as answer:
            return Told(answer.status, answer.headers, await answer.read())

    async def load(self, router: RouterProcess, name: str, key: str = "") -> Told:
        return await self.ask(router, "POST", f"{BASE}/{name}/load", key=key)

    async def chat(self, router: RouterProcess, name: str) -> Told:
        """A call of the model."""
        return await self.ask(router, "POST", "/v1/model-operations", chat_operation(model=name))

    async def catalogue(self, router: RouterProcess) -> Catalogue:
        told = await self.ask(router, "GET", BASE)
        assert told.status == 200, told.raw
        return Catalogue(told.raw, told.headers["ETag"], told.json["catalog_revision"])

    async def until_listed(self, router: RouterProcess, name: str, status: str) -> Catalogue:
        """What it lists once that has the model in that state."""

        async def look() -> bool:
            told = await self.ask(router, "GET", f"{BASE}/{name}")
            return told.status == 200 and bool(told.json["status"] == status)

        await _until(look, f"{name} is {status}")
        return await self.catalogue(router)

    async def until_ready(self, router: RouterProcess) -> None:
        async def look() -> bool:
            assert router.runs, router.log.read_text()
            try:
                return (await self.ask(router, "GET", "/readyz")).status == 200
            except aiohttp.ClientError:
                return False

        await _until(look, "ready")

    # What the operator does

    async def add(self, name: str) -> Catalogue:
        """A model that sleeps, and what both routers list from then on."""
        status = {
            "observedGeneration": 1,
            "specHash": "hash",
            "loadState": "unloaded",
            "lastReplicas": REPLICAS,
            "runtime": RUNTIME,
        }
        on_demand = {"onDemand": True}
        body = model_object(name, replicas=0, activation=on_demand, status=status)
        self.server.put(MODELS, body)
        return await self.agreed(name, "installed")

    async def agreed(self, name: str, status: str) -> Catalogue:
        """The one catalogue of both."""
        one, other = [await self.until_listed(router, name, status) for router in self.both]
        assert one == other
        return one

    def become(self, name: str, state: str) -> None:
        """The state of a model; loaded, its pod answers."""
        body = deepcopy(self.server.store.find(MODELS, name))
        assert body is not None
        body["status"]["loadState"] = state
        if state == "loaded":
            where = address("127.0.0.1", self.pod.name, ready=True)
            engine, supervisor = self.pod.engine.port, self.pod.supervisor.port
            self.server.put(
                SLICES, slice_object(where, model=name, engine=engine, supervisor=supervisor)
            )
        self.server.put(MODELS, body)

    def let_claims_end(self) -> None:
        """Time passes for the records of keys: a claim that is held now is over, an answer not."""
        for lease in deepcopy(self.server.store.listed(LEASES)):
            if lease["metadata"]["name"].startswith("pumas-request-"):
                renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
                lease["spec"]["renewTime"] = micro_time(renewed - timedelta(seconds=DEADLINE))
                self.server.put(LEASES, lease)

    async def until_wanted(self, name: str) -> None:
        """Its load was carried out, once."""
        await eventually(lambda: self.loaded_once(name), "pods are wanted")

    async def until_demanded(self, name: str, router: RouterProcess) -> None:
        """A call waits at that router: it has told so."""
        holder = "router-a" if router is self.a else "router-b"
        labels = f"serving.pumas.dev/model-uid=uid-of-{name}"

        def look() -> bool:
            found = self.server.store.listed(LEASES, labels)
            return any(lease["spec"]["holderIdentity"] == holder for lease in found)

        await eventually(look, "the model is wanted")


async def _until(look: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not await look():
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS:g} s: {what}"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def two_routers(folder: Path) -> AsyncIterator[TwoRouters]:
    """Both ready; killed at the end, without a trace of a fault in their logs."""
    async with (
        ScriptedApiServer().serving() as server,
        ServingPod("pod").serving() as pod,
        aiohttp.ClientSession() as client,
    ):
        two = TwoRouters(server, pod, folder, client)
        try:
            for router in two.both:
                await two.until_ready(router)
            yield two
        finally:
            for router in two.both:
                router.kill()
    for router in two.both:
        assert "Traceback" not in router.log.read_text()
