"""The six models of the cases behind a real router, fresh for every test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from support.catalogue import RunningCatalogue, running_catalogue


@pytest_asyncio.fixture
async def catalogue() -> AsyncIterator[RunningCatalogue]:
    async with running_catalogue() as running:
        yield running
