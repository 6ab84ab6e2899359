"""An exchange: permit, endpoint, connection, marker, header — one call's way to an engine.

Permits are tried, never queued for. Only *connecting* is tried at another endpoint, each endpoint
once, the least busy first; one that refuses is ejected. From the marker on, whatever happens is
this call's only answer.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import aiohttp

from pumas_crds.served_model import ServedModel
from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.admission import Admission
from pumas_server.router.balance import Balance
from pumas_server.router.catalog_row import Row, Target
from pumas_server.router.refusals import Reason
from pumas_server.router.sessions import Session
from pumas_server.router.upstream import ConnectFailed, Upstream
from pumas_server.router.workers import Workers


class Exchanges:
    """Makes exchanges with the models of the catalogue."""

    def __init__(
        self,
        admission: Admission,
        upstream: Upstream,
        workers: Workers,
        used: Callable[[ServedModel], None],
    ) -> None:
        """`used` is told of each model that is called."""
        self._admission = admission
        self._balance = Balance(salt=int.from_bytes(os.urandom(4)))
        self._upstream = upstream
        self._workers = workers
        self._used = used

    @asynccontextmanager
    async def open(
        self,
        session: Session,
        row: Row,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """POST `body` to one of the row's endpoints; yields the answer after its header.

        Raises `ContractError`: 503 while nothing was sent, transport_lost after.
        """
        uid = session.model_uid = row.model.metadata.uid
        self._used(row.model)
        session.poll()
        alone = len(self._workers.catalog.rows) <= 1
        with self._admission.process_permit(uid, alone=alone):
            full: Target | None = None
            for target in self._balance.order(row.targets, self._admission.by_pod):
                if not self._admission.has_pod_permit(target.endpoint.url, target.limit):
                    full = target
                    continue
                async with AsyncExitStack() as borrowed:
                    borrowed.enter_context(self._admission.pod_permit(target.endpoint.url))
                    self._balance.took(target.endpoint.url)
                    call = self._upstream.post(
                        session, target, path, body, headers, self._still_serves(target)
                    )
                    try:
                        response = await borrowed.enter_async_context(call)
                    except ConnectFailed:
                        full = None
                        self._workers.unreachable(target.endpoint)
                        continue
                    yield response
                    return
            raise self._refusal(full)

    def _refusal(self, full: Target | None) -> ContractError:
        """The error of a call that no pod took; the last one had no permit, or was not there."""
        if full is None:
            why = "no endpoint of the model can be reached"
        else:
            self._admission.refusals.count(Reason.POD_IN_FLIGHT)
            why = f"all {full.limit} calls that the model admits are in flight"
        return ContractError(Code.CAPABILITY_UNAVAILABLE, why)

    def _still_serves(self, target: Target) -> Callable[[], bool]:
        return lambda: self._workers.catalog.holds(target.identity)
