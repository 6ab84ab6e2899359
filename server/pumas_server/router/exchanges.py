"""An exchange: permit, endpoint, connection, marker, header — one call's way to an engine.

Permits are tried, never queued for. Only *connecting* is tried at another endpoint, each endpoint
once, the least busy first; one that refuses is ejected. From the marker on, whatever happens is
this call's only answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType

from pumas_crds.served_model import ServedModel
from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.address import Body
from pumas_server.router.admission import Admission
from pumas_server.router.balance import Balance
from pumas_server.router.catalog_row import Row, Target
from pumas_server.router.refusals import Reason
from pumas_server.router.sessions import Session
from pumas_server.router.upstream import Call, Upstream
from pumas_server.router.upstream_answer import UpstreamAnswer
from pumas_server.router.upstream_pool import ConnectFailed
from pumas_server.router.workers import Workers


class Exchange:
    """A call with its permits: all of them go back when the block ends, whatever ended it."""

    __slots__ = ("_admission", "_call", "_model_uid", "_url")

    def __init__(self, call: Call, admission: Admission, model_uid: str, url: str) -> None:
        self._call = call
        self._admission = admission
        self._model_uid = model_uid
        self._url = url

    def __enter__(self) -> UpstreamAnswer:
        return self._call.answer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call.close()
        self._admission.give_back_pod(self._url)
        self._admission.give_back(self._model_uid)


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

    async def open(
        self,
        session: Session,
        row: Row,
        path: str,
        body: Body,
        headers: Mapping[str, str],
    ) -> Exchange:
        """POST `body` to one of the row's endpoints; returns after the answer's header.

        Raises `ContractError`: 503 while nothing was sent, transport_lost after; `SessionEnded`.
        """
        uid = session.model_uid = row.model.metadata.uid
        self._used(row.model)
        session.poll()
        admission = self._admission
        admission.take(uid, alone=len(self._workers.catalog.rows) <= 1)
        exchange: Exchange | None = None
        try:
            exchange = await self._at_one_of(row.targets, uid, session, path, body, headers)
        finally:
            if exchange is None:
                admission.give_back(uid)
        return exchange

    async def _at_one_of(
        self,
        targets: tuple[Target, ...],
        uid: str,
        session: Session,
        path: str,
        body: Body,
        headers: Mapping[str, str],
    ) -> Exchange:
        admission = self._admission
        full: Target | None = None
        for target in self._balance.order(targets, admission.by_pod):
            url = target.endpoint.url
            if not admission.has_pod_permit(url, target.limit):
                full = target
                continue
            admission.take_pod(url)
            call: Call | None = None
            try:
                self._balance.took(url)
                call = await self._upstream.post(
                    session, target, path, body, headers, self._still_serves(target)
                )
            except ConnectFailed:
                full = None
                self._workers.unreachable(target.endpoint)
                continue
            finally:
                if call is None:
                    admission.give_back_pod(url)
            return Exchange(call, admission, uid, url)
        raise self._refusal(uid, full)

    def _refusal(self, uid: str, full: Target | None) -> ContractError:
        """The error of a call that no pod took; the last one had no permit, or was not there.

        Why it is not there is told when that is known by now.
        """
        if full is None:
            why = "no endpoint of the model can be reached"
            row = self._workers.catalog.by_uid(uid)
            if row is not None and row.error is not None:
                why += f"; {row.error.reason}: {row.error.message}"
        else:
            self._admission.refusals.count(Reason.POD_IN_FLIGHT)
            why = f"all {full.limit} calls that the model admits are in flight"
        return ContractError(Code.CAPABILITY_UNAVAILABLE, why)

    def _still_serves(self, target: Target) -> Callable[[], bool]:
        return lambda: self._workers.catalog.holds(target.identity)
