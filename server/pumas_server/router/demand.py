"""Demand: has it told that models are used, while they are, no more often than every 15 seconds.

A model counts as used while a call of it is open or waits for it, and at the moment when one ends.
What is told lags behind by one renewal at the most, which whoever puts models to rest allows for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pumas_crds.demand import RENEW_SECONDS
from pumas_crds.served_model import ServedModel
from pumas_server.router.background import start
from pumas_server.router.sessions import Sessions
from pumas_server.router.steering import Steering, Unsteerable

_log = logging.getLogger(__name__)


class Demand:
    """What is used, and when that was told last."""

    def __init__(
        self,
        sessions: Sessions,
        find: Callable[[str], ServedModel | None],
        steering: Steering,
    ) -> None:
        """`find` gives a model as it is now, by its uid."""
        self._sessions = sessions
        self._find = find
        self._steering = steering
        self._used: set[str] = set()
        self._told: dict[str, float] = {}
        self._touched = asyncio.Event()

    def touch(self, model: ServedModel) -> None:
        """A call of the model comes. Told at once if it was not told lately."""
        if model.spec.effective_activation.on_demand:
            uid = model.metadata.uid
            self._used.add(uid)
            if self._due(uid) <= 0:
                self._touched.set()

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Tell while the block lasts."""
        task = start(self._keep_telling(), "demand")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_telling(self) -> None:
        while True:
            self._touched.clear()
            self._used |= self._sessions.models() & self._told.keys()
            due = [uid for uid in self._used if self._due(uid) <= 0]
            await asyncio.gather(*map(self._tell, due))
            # A call that is open now is told of once more, so that its end is, whenever it comes.
            self._used |= self._sessions.models() & self._told.keys()
            self._forget_unused()
            waits = [self._due(uid) for uid in (self._used | self._told.keys())]
            try:
                await asyncio.wait_for(
                    self._touched.wait(), max(min(waits, default=RENEW_SECONDS), 0.1)
                )
            except TimeoutError:
                continue

    async def _tell(self, uid: str) -> None:
        self._used.discard(uid)
        model = self._find(uid)
        if model is None:
            self._told.pop(uid, None)
            return
        # A failure is told at the next renewal, not in a storm of attempts.
        self._told[uid] = asyncio.get_running_loop().time()
        try:
            await self._steering.renew(model)
        except Unsteerable as error:
            self._used.add(uid)
            _log.warning("demand for %s cannot be told: %s", model.alias, error)

    def _forget_unused(self) -> None:
        """What may be told again and is not used is waited for no longer: its next use touches."""
        in_use = self._used | self._sessions.models()
        for uid in self._told.keys() - in_use:
            if self._due(uid) <= 0:
                del self._told[uid]

    def _due(self, uid: str) -> float:
        """In how many seconds it may be told again."""
        told = self._told.get(uid)
        return 0.0 if told is None else told + RENEW_SECONDS - asyncio.get_running_loop().time()
