"""One router before one scripted provider, shared by the tests of a module.

After every test nothing may be left behind: no permit, no buffered byte, and the next call works.
Modules that use these fixtures run their tests in one loop: `pytestmark = SHARED_LOOP`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from support.routers import RunningRouter, chat_operation, external, running_router
from support.upstream import ScriptedUpstream, say_hello


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream().serving() as scripted:
        yield scripted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_router(shared_upstream: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    async with running_router(external(shared_upstream.url)) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def upstream(shared_upstream: ScriptedUpstream) -> ScriptedUpstream:
    shared_upstream.script = say_hello
    shared_upstream.seen.clear()
    return shared_upstream


@pytest_asyncio.fixture(loop_scope="module")
async def router(
    shared_router: RunningRouter, upstream: ScriptedUpstream
) -> AsyncIterator[RunningRouter]:
    yield shared_router
    await shared_router.idle()
    upstream.script = say_hello
    status, body = await shared_router.operate(chat_operation(request_id="after"))
    assert (status, body["request_id"]) == (200, "after"), "the next request does not work"
