"""An operator process on the shared API server, with watches that stall, end and tell things twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from pumas_crds.facts import PodDescriptor
from pumas_operator.environment import Environment
from pumas_operator.intake import WATCHED, Intake, Watched
from pumas_operator.kinds import Kind
from pumas_operator.manifests import Settings
from pumas_operator.operation import Operation
from support.cluster_controllers import Controllers
from support.shared_api import Change, SharedApi, Way

HOME, TEAM = "pumas-system", "team"
SECRET = b"a secret"
WATCH_SECONDS = 0.03


class Watches:
    """What kopf does: hands events over, and whole listings when a watch cannot go on."""

    def __init__(self, api: SharedApi, intake: Intake) -> None:
        self._api = api
        self._intake = intake
        self.stalled: set[Kind] = set()
        self._at = {watched.kind: len(api.history[watched.kind]) for watched in WATCHED}
        self._due: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Events are on their way."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._deliver)

    def close(self) -> None:
        """Nothing comes any more."""
        if self._due is not None:
            self._due.cancel()

    def go_on(self) -> None:
        """All that was held back comes, in order."""
        self.stalled.clear()
        self.soon()

    def relist(self) -> bool:
        """What was held back is lost: each kind is listed and then watched from there.

        Whether some listing was empty: then nobody is told that there was one.
        """
        blind = False
        for watched in WATCHED:
            if watched.kind in self.stalled:
                self._at[watched.kind] = len(self._api.history[watched.kind])
                blind |= not self._api.all(watched.kind)
                for body in self._api.all(watched.kind):
                    if _selects(watched, body):
                        self._intake.seen(watched.kind, body)
                        self._intake.relisted()
        self.stalled.clear()
        return blind

    def replay(self, count: int) -> None:
        """The last events of each kind are told once more."""
        for kind, at in self._at.items():
            if kind not in self.stalled:
                self._at[kind] = max(0, at - count)
        self.soon()

    def _deliver(self) -> None:
        self._due = None
        if self._api.away:
            self.soon_after()
            return
        for watched in WATCHED:
            history = self._api.history[watched.kind]
            while self._at[watched.kind] < len(history) and watched.kind not in self.stalled:
                change = history[self._at[watched.kind]]
                self._at[watched.kind] += 1
                self._take(watched, change)

    def soon_after(self) -> None:
        """Again in a while."""
        self._due = asyncio.get_running_loop().call_later(0.5, self._deliver)

    def _take(self, watched: Watched, change: Change) -> None:
        if not _selects(watched, change.body):
            return
        if change.type == "DELETED":
            self._intake.gone(watched.kind, change.body)
        else:
            self._intake.seen(watched.kind, change.body)


def _selects(watched: Watched, body: dict[str, object]) -> bool:
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    name, _, value = watched.selector.partition("=")
    return not name or metadata.get("labels", {}).get(name) == value


class LivingOperator:
    """One process. Implements `Supervisors` by asking the pods themselves."""

    def __init__(
        self,
        api: SharedApi,
        controllers: Controllers,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self.way = Way(api, "operator")
        self._api = api
        self._controllers = controllers
        self._clock = clock
        self.started_at = asyncio.get_running_loop().time()
        self.heard: dict[str, float] = {}
        """When it heard of demand last, by the model's uid."""
        environment = Environment(
            HOME,
            (TEAM,),
            Path("unused"),
            "operator-1",
            8080,
            Settings(image="registry.example/worker:1", namespace=HOME),
        )
        self.operation = Operation(
            self.way, self, environment, SECRET, lambda: True, clock=clock, now=now
        )
        self.watches: Watches | None = None
        wanted = self.operation.intake._wanted
        self.operation.intake._wanted = lambda uid: self._hear(uid, wanted)  # type: ignore[method-assign]
        self._task = asyncio.create_task(self._run(), name="operator")

    def _hear(self, uid: str, wanted: Callable[[str], None]) -> None:
        self.heard[uid] = asyncio.get_running_loop().time()
        wanted(uid)

    async def describe(self, address: str) -> PodDescriptor | None:
        """What the pod at that address says."""
        await asyncio.sleep(0.01)
        found = self._controllers.at(address)
        return None if found is None else found.describe()

    async def _run(self) -> None:
        await self.operation.prepare()
        self.watches = Watches(self._api, self.operation.intake)
        for watched in WATCHED:
            self.watches.stalled.add(watched.kind)
        self.watches.relist()
        await asyncio.gather(*self.operation.work())

    def moved(self) -> None:
        """Something has changed at the API server."""
        if self.watches is not None:
            self.watches.soon()

    async def crash(self) -> None:
        """It is killed."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self.watches is not None:
            self.watches.close()
        self.operation._queue.close()
