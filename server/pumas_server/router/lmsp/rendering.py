"""Rendering the first listing before anybody asks for it, in slices between other work."""

from __future__ import annotations

import asyncio

from pumas_server.router.lmsp.catalogue import Catalogue
from pumas_server.router.lmsp.query import EVERYTHING
from pumas_server.router.workers import Workers


async def render_first(workers: Workers, catalogue: Catalogue) -> None:
    """Wait for the first listing and render its models, then the list of them all."""
    await workers.until(lambda _: workers.listed)
    for _ in catalogue.render(workers.records):
        await asyncio.sleep(0)
    catalogue.listing(workers.records).select(EVERYTHING)
