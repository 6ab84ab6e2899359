"""Control calls to an engine: the first call of every kind, and what its answers mean."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from pumas_crds.facts import Limit
from pumas_crds.vocabulary import EngineMode
from pumas_server.media.image import check_image
from pumas_server.worker.engine_client import DOT, EngineClient, WarmUpRefused
from pumas_server.worker.exchange import NoAnswer
from support.upstream import Conversation, ScriptedUpstream
from support.worker import free_ports


class Engine:
    """Answers every POST with one status and body."""

    def __init__(self) -> None:
        self.upstream = ScriptedUpstream(self.talk)
        self.status, self.body = 200, b"{}"
        self.breaks = False

    async def talk(self, talk: Conversation) -> None:
        if self.breaks:
            talk.reset()
        else:
            await talk.whole(self.status, self.body)

    def asked(self) -> tuple[str, Any]:
        (request,) = self.upstream.seen
        assert request.headers["authorization"] == "Bearer key"
        assert request.headers["content-type"] == "application/json"
        return request.path, request.json


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine()
    async with made.upstream.serving():
        yield made


@pytest.fixture
def client(engine: Engine) -> EngineClient:
    return EngineClient("127.0.0.1", engine.upstream.port, "key")


def limits(**ranges: tuple[int, int]) -> list[Limit]:
    return [Limit(option=o, minimum=low, maximum=high) for o, (low, high) in ranges.items()]


@pytest.mark.parametrize(
    ("mode", "path"),
    [
        (EngineMode.GENERATE, "/v1/completions"),
        (EngineMode.EMBED, "/v1/embeddings"),
        (EngineMode.RERANK, "/v1/rerank"),
        (EngineMode.DECIDE, "/v1/systemone"),
        (EngineMode.GENERATE_IMAGE, "/v1/images/generations"),
    ],
)
async def test_the_first_call_is_of_the_engines_kind(
    engine: Engine, client: EngineClient, mode: EngineMode, path: str
) -> None:
    await client.warm_up(mode)
    assert engine.asked()[0] == path


@pytest.mark.parametrize(
    ("told", "size"),
    [
        (limits(width=(8, 64), height=(16, 64), seed=(0, 9)), "8x16"),
        (limits(seed=(0, 9)), None),
        (limits(width=(8, 64)), None),
        (limits(height=(8, 64)), None),
    ],
)
async def test_the_first_image_is_the_least_that_the_engine_makes(
    engine: Engine, client: EngineClient, told: list[Limit], size: str | None
) -> None:
    await client.warm_up(EngineMode.GENERATE_IMAGE, told)
    assert engine.asked()[1].get("size") == size


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error":{"message":"no such op, see /opt/m.onnx"}}', "no such op, see "),
        (b'{"error":{"message":5}}', "it gave no reason"),
        (b"[]", "it gave no reason"),
        (b"no json", "it gave no reason"),
    ],
)
async def test_an_engine_that_refuses_its_first_call(
    engine: Engine, client: EngineClient, body: bytes, told: str
) -> None:
    engine.status, engine.body = 500, body
    with pytest.raises(WarmUpRefused) as refused:
        await client.warm_up(EngineMode.EMBED)
    message = str(refused.value)
    assert message.startswith(f"The engine answered the first call with status 500: {told}")
    assert "/opt" not in message


@pytest.mark.parametrize(("status", "sees"), [(200, True), (400, False), (500, False)])
async def test_whether_decisions_take_media_is_tried(
    engine: Engine, client: EngineClient, status: int, sees: bool
) -> None:
    engine.status = status
    assert await client.decides_on_media() is sees
    path, question = engine.asked()
    assert path == "/v1/systemone" and question["images"] == [DOT]


async def test_an_engine_that_breaks_over_an_image_has_not_answered(
    engine: Engine, client: EngineClient
) -> None:
    engine.breaks = True
    with pytest.raises(NoAnswer):
        await client.decides_on_media()
    with pytest.raises(NoAnswer):
        await client.warm_up(EngineMode.EMBED)


def test_the_image_that_is_tried_is_a_sound_one() -> None:
    head, _, data = DOT.partition(",")
    assert head == "data:image/png;base64"
    check_image("png", base64.b64decode(data, validate=True), lambda: None)


async def test_what_is_read_of_an_engine(engine: Engine, client: EngineClient) -> None:
    told: dict[str, tuple[int, bytes]] = {
        "/health": (503, b"{}"),
        "/props": (200, b'{"device":"cpu"}'),
        "/models": (404, b"no json"),
        "/broken": (200, b"no json"),
        "/slots": (200, json.dumps([{"is_processing": True}, {"is_processing": 1}, 7]).encode()),
    }

    async def tell(talk: Conversation) -> None:
        await talk.whole(*told[talk.request.path])

    engine.upstream.listing = tell
    assert await client.health() == 503
    assert await client.fact("/props") == {"device": "cpu"}
    assert await client.fact("/models") is None
    with pytest.raises(NoAnswer, match="is no JSON"):
        await client.fact("/broken")
    assert await client.busy() == 1
    for useless in ((500, b"[]"), (200, b"{}"), (200, b"no json")):
        told["/slots"] = useless
        assert await client.busy() is None


async def test_nobody_there() -> None:
    client = EngineClient("127.0.0.1", free_ports(1)[0], "key")
    assert await client.health() is None
    assert await client.busy() is None
