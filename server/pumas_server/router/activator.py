"""The activator: a request for a model that sleeps has it loaded, and waits for it (*At zero*).

One load a model, however many wait; what it asked of the cluster goes on when they leave. Whoever
waits holds no permit, and is let go in the order of coming: with the model as it serves, with the
fault that keeps it from serving, or when `holdSeconds` are over. How many may wait is bounded; the
bytes that they hold are the buffer budget's.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_never

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import PERMANENT_REASONS
from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.catalog_row import Row
from pumas_server.router.demand import Demand
from pumas_server.router.refusals import Reason, Refusals
from pumas_server.router.sessions import Session
from pumas_server.router.steering import Outdated, Steering, Unsteerable
from pumas_server.router.wake import Awake, Fails, Scale, Wait, decide_wake
from pumas_server.router.workers import Workers

_log = logging.getLogger(__name__)

#: How soon to look again at what another has changed, or what could not be written.
_AGAIN_SECONDS = 0.5


class LoadFailed(Exception):
    """The model that a call waits for does not come to serve."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.message)

    @property
    def lasting(self) -> bool:
        """Whether waiting does not end it."""
        return self.fault.reason in PERMANENT_REASONS

    def as_error(self, alias: str) -> ContractError:
        """What a caller of the contract is told."""
        return ContractError(
            Code.CAPABILITY_UNAVAILABLE,
            f"model `{alias}` could not be loaded; {self.fault.reason}: {self.fault.message}",
            lasting=self.lasting,
        )


class Activator:
    """Wakes models, and holds those who wait for them."""

    def __init__(
        self,
        workers: Workers,
        steering: Steering,
        demand: Demand,
        max_held: int,
        refusals: Refusals,
    ) -> None:
        self._refusals = refusals
        self._workers = workers
        self._steering = steering
        self._demand = demand
        self._max_held = max_held
        self._loads: dict[str, asyncio.Task[Row]] = {}
        self._waiting: Counter[str] = Counter()
        self._scaled_up: set[str] = set()
        """Uids of models whose load has nothing left to do but to look how it ends."""
        self.held = 0
        """Calls that wait now."""

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Loads may go on while the block lasts."""
        try:
            yield
        finally:
            loads = tuple(self._loads.values())
            for load in loads:
                load.cancel()
            await asyncio.gather(*loads, return_exceptions=True)

    async def wake(self, session: Session, row: Row) -> Row:
        """The row once it can be called.

        Raises `LoadFailed`; `ContractError` (503) when too many wait or the time is over; and
        `SessionEnded` when the caller leaves, the model goes or the router stops.
        """
        model = row.model
        if self.held >= self._max_held:
            self._refusals.count(Reason.HELD)
            raise ContractError(
                Code.CAPABILITY_UNAVAILABLE,
                f"all {self._max_held} calls that may wait for a model to load do so",
            )
        uid = session.model_uid = model.metadata.uid
        self._demand.touch(model)
        load = self._load_of(uid)
        seconds = model.spec.effective_activation.hold
        self.held += 1
        self._waiting[uid] += 1
        try:
            with session.interruptible():
                return await asyncio.wait_for(asyncio.shield(load), seconds)
        except TimeoutError:
            raise ContractError(
                Code.CAPABILITY_UNAVAILABLE,
                f"model `{row.alias}` is still loading after {seconds} s",
            ) from None
        finally:
            self.held -= 1
            self._waiting[uid] -= 1
            self._leave(uid)

    def _load_of(self, uid: str) -> asyncio.Task[Row]:
        """The load of a model that is under way, or a new one."""
        load = self._loads.get(uid)
        if load is None:
            load = self._loads[uid] = asyncio.create_task(self._load(uid), name=f"load-{uid}")
            load.add_done_callback(lambda ended: self._ended(uid, ended))
        return load

    def _leave(self, uid: str) -> None:
        """With the last who waits ends a load that only looks on.

        Whoever comes later begins anew: how this one ends may be over by then, and is not theirs.
        """
        if not self._waiting[uid]:
            del self._waiting[uid]
            if uid in self._scaled_up:
                self._scaled_up.discard(uid)
                self._loads.pop(uid).cancel()

    def _ended(self, uid: str, load: asyncio.Task[Row]) -> None:
        if self._loads.get(uid) is load:
            del self._loads[uid]
            self._scaled_up.discard(uid)
        if not load.cancelled():
            load.exception()  # told to those who waited; there may be none left

    async def _load(self, uid: str) -> Row:
        scaled_from: str | None = None
        while True:
            catalog = self._workers.catalog
            match decide_wake(catalog.by_uid(uid), scaled_from):
                case Awake(row):
                    return row
                case Fails(fault):
                    raise LoadFailed(fault)
                case Scale(row, replicas):
                    if await self._scaled(row, replicas):
                        scaled_from = row.model.metadata.resource_version
                        self._scaled_up.add(uid)
                        self._leave(uid)
                    else:
                        await self._workers.changed(catalog, _AGAIN_SECONDS)
                case Wait():
                    await self._workers.changed(catalog, None)
                case _ as never:
                    assert_never(never)

    async def _scaled(self, row: Row, replicas: int) -> bool:
        try:
            await self._steering.scale(row.model, replicas)
        except Outdated:
            return False
        except Unsteerable as error:
            _log.warning("%s cannot be loaded now: %s", row.alias, error)
            return False
        return True
