"""Collecting records that are nobody's any more, for as long as the router runs.

Every router does it, at times of its own: a record that another has just deleted is passed over.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import NoReturn, Protocol

from pumas_server.router.lmsp.request_records import RecordsUnavailable

_log = logging.getLogger(__name__)

COLLECT_SECONDS = 600.0
#: Of that time: how much later a round may begin, so that routers do not come together.
_SPREAD = 0.2
#: Routers that were started together begin within this time.
_FIRST_SECONDS = 60.0


class Collectable(Protocol):
    """Records that can be collected."""

    async def collect(self) -> None:
        """Delete what is nobody's any more. Raises `RecordsUnavailable`."""
        ...


async def collect_for_ever(records: Collectable) -> NoReturn:
    """A first round soon, then one every ten minutes and a bit. Trouble is told once."""
    pause, told = random.uniform(0, _FIRST_SECONDS), ""
    while True:
        await asyncio.sleep(pause)
        trouble = ""
        try:
            await records.collect()
        except RecordsUnavailable as error:
            trouble = str(error)
        if trouble != told:
            _log.warning("old records: %s", trouble or "collected again")
            told = trouble
        pause = COLLECT_SECONDS * random.uniform(1, 1 + _SPREAD)
