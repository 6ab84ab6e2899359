"""A router process on the shared API server: everything real but HTTP, and the callers it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

import aiohttp

from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import LoadState
from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.activator import Activator, LoadFailed
from pumas_server.router.catalog_row import Row
from pumas_server.router.cluster_access import ClusterAccess
from pumas_server.router.cluster_source import ClusterSource
from pumas_server.router.cluster_steering import ClusterSteering
from pumas_server.router.demand import Demand
from pumas_server.router.lmsp.load_control import ModelGone, NotLoadable
from pumas_server.router.loading import Loading
from pumas_server.router.observations import Observation, observe_pod
from pumas_server.router.refusals import Refusals
from pumas_server.router.sessions import EndReason, Session, SessionEnded, Sessions
from pumas_server.router.settings import RouterSettings
from pumas_server.router.source import Endpoint
from pumas_server.router.steering import Unsteerable
from pumas_server.router.workers import Workers, _Watched
from support.cluster_controllers import Controllers
from support.living_operator import HOME, SECRET, TEAM
from support.router_way import RouterWay
from support.shared_api import SharedApi

SETTINGS = RouterSettings(max_held=4)


class AskingWorkers(Workers):
    """Workers that ask the pods of a test instead of addresses."""

    def __init__(self, source: ClusterSource, controllers: Controllers) -> None:
        super().__init__(source, SETTINGS)
        self._controllers = controllers

    async def _ask(self, client: aiohttp.ClientSession, watched: _Watched) -> Observation | None:
        await asyncio.sleep(0.005)
        pod = self._controllers.pods.get(watched.endpoint.uid)
        told = None if pod is None else pod.describe()
        return None if told is None else observe_pod(told)

    async def _is_ready(self, endpoint: Endpoint) -> bool:
        await asyncio.sleep(0.005)
        pod = self._controllers.pods.get(endpoint.uid)
        return pod is not None and pod.ready


@dataclass(eq=False)
class Call:
    """One request, and what came of it."""

    began: float
    seconds: float
    """How long the pod works on it."""
    router: LivingRouter
    uid: str = ""
    """Of the model that it waits for."""
    waits_since: float | None = None
    served_at: float | None = None
    """When a pod took it."""
    ended: float | None = None
    outcome: str = ""
    """`answered`, `left`, `lost` (with its router), `broken` (with its pod), else a refusal."""
    fault: Fault | None = None
    task: asyncio.Task[None] | None = None
    session: Session | None = None


@dataclass(eq=False)
class LivingRouter:
    """One process."""

    api: SharedApi
    controllers: Controllers
    name: str
    now: Callable[[], datetime]
    calls: list[Call] = field(default_factory=list)
    crashed: bool = False

    def __post_init__(self) -> None:
        self.way = RouterWay(self.api, self.name)
        self.source = ClusterSource(cast(ClusterAccess, self.way), (TEAM,), SECRET)
        self.sessions = Sessions()
        self.workers = AskingWorkers(self.source, self.controllers)
        steering = ClusterSteering(self.way, HOME, self.name, self.now)
        self.demand = Demand(self.sessions, self._find, steering)
        self.activator = Activator(
            self.workers, steering, self.demand, SETTINGS.max_held, Refusals()
        )
        self.loading = Loading(self.workers, steering)
        self.started_at = asyncio.get_running_loop().time()
        self._task = asyncio.create_task(self._run(), name=self.name)

    def _find(self, uid: str) -> ServedModel | None:
        row = self.workers.catalog.by_uid(uid)
        return None if row is None else row.model

    async def _run(self) -> None:
        async with (
            self.workers.run(removed=self.sessions.stop),
            self.demand.run(),
            self.activator.run(),
        ):
            await asyncio.Event().wait()

    async def crash(self) -> None:
        """It is killed, and tells nobody anything."""
        self.crashed = True
        tasks = [call.task for call in self.calls if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def request(self, seconds: float) -> Call:
        """A caller comes."""
        call = Call(asyncio.get_running_loop().time(), seconds, self)
        self.calls.append(call)
        call.task = asyncio.create_task(self._serve(call))
        return call

    async def ask(self, load: bool) -> str:
        """An explicit load or unload; what was answered."""
        row = next(iter(self.workers.catalog.rows), None)
        if row is None:
            return "no model"
        wanted = self.loading.load if load else self.loading.unload
        try:
            return (await wanted(row.model.metadata.uid)).value
        except (ModelGone, NotLoadable, Unsteerable) as error:
            return type(error).__name__

    async def _serve(self, call: Call) -> None:
        with self.sessions.open() as session:
            call.session = session
            try:
                await self._operate(call, session)
                call.outcome = "answered"
            except LoadFailed as failure:
                call.outcome, call.fault = "load failed", failure.fault
            except ContractError as error:
                call.outcome = _word(error)
                call.fault = getattr(error, "fault", None)
            except SessionEnded as ended:
                left = ended.reason is EndReason.CALLER_GONE
                call.outcome = "left" if left else "stopped"
            except ConnectionError:
                call.outcome = "broken"
            except asyncio.CancelledError:
                call.outcome = "lost"
                raise
            finally:
                call.ended = asyncio.get_running_loop().time()
                self.calls.remove(call)

    async def _operate(self, call: Call, session: Session) -> None:
        """As the contract's route does it, with no bytes."""
        row = self.workers.catalog.select("tiny", None)
        call.uid = row.model.metadata.uid
        if row.asleep:
            call.waits_since = asyncio.get_running_loop().time()
            row = await self.activator.wake(session, row)
        if not row.targets:
            if row.error is not None and row.load_state is LoadState.FAILED:
                raise LoadFailed(row.error)
            raise ContractError(Code.CAPABILITY_UNAVAILABLE, "unavailable now")
        await self._exchange(call, session, row)

    async def _exchange(self, call: Call, session: Session, row: Row) -> None:
        session.model_uid = row.model.metadata.uid
        self.demand.touch(row.model)
        session.poll()
        for target in row.targets:
            await asyncio.sleep(0.005)
            pod = self.controllers.pods.get(target.endpoint.uid)
            if pod is None or not pod.takes_calls:
                self.workers.unreachable(target.endpoint)
                continue
            if not self.workers.catalog.holds(target.identity):
                raise ContractError(Code.CAPABILITY_UNAVAILABLE, "it has changed meanwhile")
            session.admitted = True
            call.served_at = asyncio.get_running_loop().time()
            pod.calls[call] = call.served_at
            try:
                with session.interruptible():
                    await asyncio.sleep(call.seconds)
            finally:
                del pod.calls[call]
            if pod.gone or pod.phase.name != "READY":
                raise ConnectionError
            return
        raise ContractError(Code.CAPABILITY_UNAVAILABLE, "no endpoint can be reached")


def _word(error: ContractError) -> str:
    message = str(error)
    for part, word in (
        ("still loading", "timed out"),
        ("may wait", "too many"),
        ("no model", "no model"),
        ("unavailable now", "unavailable"),
        ("changed meanwhile", "changed"),
        ("be reached", "unreachable"),
    ):
        if part in message:
            return word
    raise AssertionError(message)
