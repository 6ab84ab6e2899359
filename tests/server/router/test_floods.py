"""Bad input under load: whoever calls well is served meanwhile, and afterwards nothing is left."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace

import psutil
import pytest

from pumas_server.router.connection import CallerConnection
from pumas_server.router.growing_body import LONG_BYTES
from pumas_server.router.refusals import Reason
from pumas_server.router.sessions import Session
from support.eventually import eventually
from support.floods import (
    huge_bodies,
    malformed_json,
    no_http,
    opened_and_dropped,
    slow_bodies,
    slow_headers,
    vanishing,
)
from support.raw_caller import calling, post
from support.routers import TEST_SETTINGS, RunningRouter, chat_operation, external, running_router
from support.upstream import ScriptedUpstream, say_hello

OPERATIONS = "/v1/model-operations"

SETTINGS = replace(
    TEST_SETTINGS,
    header_seconds=1,
    body_seconds=1,
    external_in_flight=1000,
    # Two of the huge bodies.
    buffer_bytes=67_108_864,
    max_connections=2000,
)


@pytest.fixture
async def router() -> AsyncIterator[RunningRouter]:
    async with (
        ScriptedUpstream(say_hello).serving() as upstream,
        running_router(external(upstream.url), settings=SETTINGS) as running,
    ):
        yield running


async def good_calls(running: RunningRouter, over: asyncio.Event) -> int:
    """Calls one after the other on a connection; every one of them is answered well."""
    asked = post(OPERATIONS, json.dumps(chat_operation()).encode())
    count = 0
    async with calling(running.port) as caller:
        while not over.is_set():
            await caller.send(asked)
            answer = await caller.answer(30)
            assert (answer.status, answer.json["result"]["text"]) == (200, "hello")
            count += 1
            await asyncio.sleep(0.01)
    return count


def living(kind: type[object]) -> int:
    """Objects of a class that are held by anything."""
    gc.collect()
    return sum(type(found) is kind for found in gc.get_objects())


async def rests(running: RunningRouter, descriptors: int) -> None:
    """Nothing is open, borrowed or held, and no memory of a connection or a call is kept."""
    router = running.router
    await eventually(lambda: router.connections.open == 0, "every connection is closed")
    assert router.connections.beyond == 0
    await running.idle()
    assert router.admission.by_model == {}
    # What the pool holds goes after two seconds.
    await eventually(lambda: psutil.Process().num_fds() <= descriptors, "descriptors are back")
    await eventually(lambda: living(CallerConnection) == 0, "no connection is remembered")
    await eventually(lambda: living(Session) == 0, "no session is remembered")


async def test_whoever_calls_well_is_served_and_nothing_is_left(
    router: RunningRouter, caplog: pytest.LogCaptureFixture
) -> None:
    # The first long body starts the process that reads them.
    status, _, _ = await router.post(OPERATIONS, b" " * LONG_BYTES)
    assert status == 400
    await router.client.close()
    await rests(router, psutil.Process().num_fds())
    descriptors = psutil.Process().num_fds()
    over = asyncio.Event()
    good = [asyncio.create_task(good_calls(router, over)) for _ in range(4)]

    async def flood() -> list[object]:
        floods: tuple[Awaitable[object], ...] = (
            slow_headers(router.port, 100),
            slow_bodies(router.port, 60),
            malformed_json(router.port, 400),
            no_http(router.port, 200),
            opened_and_dropped(router.port, 1500),
            vanishing(router.port, 200),
            huge_bodies(router.port, 8),
            huge_bodies(router.port, 4, b'{"a":[', b"[],"),
        )
        return list(await asyncio.gather(*floods))

    try:
        headers, bodies, malformed, garbage, _, _, huge, values = await flood()
    finally:
        over.set()
    served = await asyncio.gather(*good)
    assert headers == {408: 100}
    assert bodies == {400: 60}
    assert malformed == {400: 400}
    assert garbage == {400: 200}
    assert set(huge) <= {400, 503}
    assert set(values) <= {413, 503}
    # The last one of them has all the room there is.
    assert huge[400] + values[413] >= 1
    assert min(served) > 10
    refused = router.router.refusals.counts
    assert refused[Reason.HEADER_TIMEOUT] == 100
    assert refused[Reason.BODY_TIMEOUT] >= 60
    assert refused[Reason.BUFFER] == huge[503] + values[503]
    assert refused[Reason.MAX_IN_FLIGHT] == refused[Reason.CONNECTIONS] == 0
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    await rests(router, descriptors)


async def test_more_connections_than_may_be_and_those_that_are_in_are_served() -> None:
    settings = replace(SETTINGS, max_connections=20, header_seconds=5)
    async with (
        ScriptedUpstream(say_hello).serving() as upstream,
        running_router(external(upstream.url), settings=settings) as running,
    ):
        await running.client.close()
        await eventually(lambda: running.router.connections.open == 0, "none is open")
        descriptors = psutil.Process().num_fds()
        over = asyncio.Event()
        good = [asyncio.create_task(good_calls(running, over)) for _ in range(4)]
        await eventually(lambda: running.router.connections.open == 4, "the good ones are in")
        # The backlog is taken in one go, and so are those over the cap.
        await opened_and_dropped(running.port, 1000)
        over.set()
        assert min(await asyncio.gather(*good)) > 0
        assert running.router.refusals.counts[Reason.CONNECTIONS] > 0
        await rests(running, descriptors)
