"""The operator at work: memory, queue, and the tasks that empty it.

Nothing is reconciled before everything was listed once: from half of what there is, a model that
serves would look as if it did not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from time import monotonic

from pumas_operator.applying import Changed
from pumas_operator.cluster import Cluster, Refused, Unreachable
from pumas_operator.describing import Describer, Supervisors
from pumas_operator.environment import Environment
from pumas_operator.intake import Intake, Listing, demanded_uid
from pumas_operator.json_object import Json
from pumas_operator.keyed_queue import KeyedQueue
from pumas_operator.kinds import LEASE, SERVED_MODEL
from pumas_operator.objects import Key, Objects, key_of, uid_of
from pumas_operator.reconcile import Reconciler
from pumas_operator.requests import Request, build_delete
from pumas_operator.rest import Uses

_log = logging.getLogger(__name__)

LEASE_NAME = "pumas-operator"
WORKERS = 8
RELIST_SECONDS = 600.0
#: After kopf has listed, or the API server was away: how soon all is listed again.
SUSPICION_SECONDS = 5.0
#: How soon an operator that does not lead now looks whether it does again.
FENCED_SECONDS = 1.0
_PAUSE_SECONDS = 2.0


class NotLeading(Unreachable):
    """Nothing was asked of the API server, since this operator may not write now."""


class Fenced:
    """The API server for one that may write only while it leads."""

    def __init__(self, cluster: Cluster, leads: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._leads = leads

    async def send(self, request: Request) -> Json:
        """As the cluster does it; a write without the lead raises `NotLeading`."""
        if request.method != "GET" and not self._leads():
            raise NotLeading("this operator does not lead now")
        return await self._cluster.send(request)


class Operation:
    """One leading operator."""

    def __init__(
        self,
        cluster: Cluster,
        supervisors: Supervisors,
        environment: Environment,
        secret: bytes,
        leads: Callable[[], bool],
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`clock` measures how long a model is at rest; `now` is what statuses are dated with."""
        fenced = Fenced(cluster, leads)
        describer = Describer(supervisors)
        objects, self._uses = Objects(), Uses(clock)
        self._objects, self._cluster = objects, fenced
        self._queue: KeyedQueue[Key] = KeyedQueue()
        self._suspicion = asyncio.Event()
        self._reconciler = Reconciler(
            fenced,
            objects,
            describer,
            environment.settings,
            environment.namespace,
            secret,
            self._uses,
            now,
        )
        self.intake = Intake(
            objects,
            self._queue.add,
            self._reconciler.forget,
            describer.forget,
            self.interrupted,
            self._uses.wanted,
        )
        self._listing = Listing(
            fenced, objects, self.intake, environment.namespace, environment.watched
        )

    def interrupted(self) -> None:
        """Something may have gone unheard: what was deleted meanwhile, or who wanted what."""
        self._uses.interrupted()
        self._suspicion.set()

    async def prepare(self) -> None:
        """List everything, however long the API server takes to be there and to know our kinds."""
        listed = await self._list()
        while not listed:
            await asyncio.sleep(_PAUSE_SECONDS)
            listed = await self._list()

    def work(self) -> Iterator[Coroutine[None, None, None]]:
        """What has to run from then on; none of it ends."""
        yield self._relist()
        for _ in range(WORKERS):
            yield self._reconcile()

    async def _reconcile(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                again = await self._reconciler.reconcile(key)
            except NotLeading:
                # No fault of the model's, and over as soon as the Lease is renewed.
                self._queue.done(key, FENCED_SECONDS)
            except (Unreachable, Changed) as error:
                pause = self._queue.failed(key)
                _log.info("%s/%s: %s; again in %.1f s", *key, error, pause)
                if isinstance(error, Unreachable):
                    self._suspicion.set()
            except Refused as error:
                pause = self._queue.failed(key)
                _log.warning("%s/%s: refused: %s; again in %.1f s", *key, error, pause)
            except Exception:
                # One model that this release cannot handle must not stop the others.
                pause = self._queue.failed(key)
                _log.exception("%s/%s could not be reconciled; again in %.1f s", *key, pause)
            else:
                self._queue.done(key, again)

    async def _relist(self) -> None:
        while True:
            try:
                async with asyncio.timeout(RELIST_SECONDS):
                    await self._suspicion.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(SUSPICION_SECONDS)
                self._uses.interrupted()
            self._suspicion.clear()
            if await self._list():
                await self._collect()
                # The API server answers: what failed for want of it need not wait longer.
                self._queue.hasten()
            else:
                self._suspicion.set()

    async def _collect(self) -> None:
        """Delete what routers have told of models that are gone."""
        known = {uid_of(model) for model in self._objects.all(SERVED_MODEL)}
        for lease in self._objects.all(LEASE):
            if demanded_uid(lease) not in known:
                key = key_of(lease)
                request = build_delete(LEASE, *key, uid_of(lease))
                try:
                    await self._cluster.send(request)
                except (Unreachable, Refused) as error:
                    _log.info("the Lease %s is left until the next time: %s", key.name, error)

    async def _list(self) -> bool:
        try:
            await self._listing.list_all()
        except (Unreachable, Refused) as error:
            _log.warning("what there is cannot be listed: %s", error)
            return False
        return True
