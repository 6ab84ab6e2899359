"""Reach: an exchange with a model, also with one that went to sleep while its call was on its way.

Between choosing an endpoint and being connected to it the model may be put to rest. No provider has
seen a byte then, so the call waits for the model like any other, once.
"""

from __future__ import annotations

from collections.abc import Mapping

from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.address import Body
from pumas_server.router.activator import Activator, LoadFailed
from pumas_server.router.catalog_row import Row
from pumas_server.router.exchanges import Exchange, Exchanges
from pumas_server.router.sessions import Session
from pumas_server.router.workers import Workers


class Reach:
    """Opens exchanges, and wakes what has just fallen asleep."""

    def __init__(self, exchanges: Exchanges, activator: Activator, workers: Workers) -> None:
        self._exchanges = exchanges
        self._activator = activator
        self._workers = workers

    async def open(
        self, session: Session, row: Row, path: str, body: Body, headers: Mapping[str, str]
    ) -> Exchange:
        """See `Exchanges.open`."""
        try:
            return await self._exchanges.open(session, row, path, body, headers)
        except ContractError as error:
            row = await self._waked(session, row, error)
        return await self._exchanges.open(session, row, path, body, headers)

    async def _waked(self, session: Session, row: Row, error: ContractError) -> Row:
        """The same model, waked if that is what was in the way. Raises `ContractError`."""
        now = self._workers.catalog.by_uid(row.model.metadata.uid)
        unavailable = error.code is Code.CAPABILITY_UNAVAILABLE and not session.admitted
        if not unavailable or now is None or not now.asleep or not _is_as(now, row):
            raise error
        try:
            waked = await self._activator.wake(session, now)
        except LoadFailed as failure:
            raise failure.as_error(row.alias) from None
        if not _is_as(waked, row):
            raise error
        return waked


def _is_as(now: Row, before: Row) -> bool:
    """Whether a call that was made for the model as it was fits it as it is."""
    return now.made_of.record.spec_hash == before.made_of.record.spec_hash
