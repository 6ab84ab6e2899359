"""The engine's HTTP: who is let in, what is told, how busy it is, how a call is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import orjson
import pytest

from pumas_server.contract.bounds import MAX_REQUEST_BYTES
from pumas_server.worker.onnx.fault import EngineFault
from pumas_server.worker.onnx.served import Handler, Limit, Served, Unfit
from pumas_server.worker.onnx.server import EngineServer
from support.eventually import eventually

KEY = {"Authorization": "Bearer the-key"}
EMBED = "/v1/embeddings"


def served(handler: Handler) -> Served:
    return Served(
        handlers={EMBED: handler},
        checks={EMBED: check},
        input_modalities=("text",),
        output_modalities=("vector",),
        device="cpu",
        limits=(Limit("input_count", 1, 128),),
        embedding_width=16,
        context_tokens=48,
    )


def check(body: dict[str, object]) -> None:
    """As a check is: no work, and a refusal of what the work would refuse."""
    if body.get("input") == "too long":
        raise Unfit("input[0] has input_tokens 49; the limit is 48")


def echo(body: dict[str, object]) -> bytes:
    return orjson.dumps(body)


@asynccontextmanager
async def asking(app: EngineServer) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        client.headers.update(KEY)
        yield client


def engine(handler: Handler = echo, slots: int = 2) -> EngineServer:
    app = EngineServer("team/tiny", "the-key", slots, "onnxruntime 1")
    app.serve(served(handler))
    return app


async def test_while_it_loads_only_health_and_the_key_are_looked_at() -> None:
    app = EngineServer("team/tiny", "the-key", 1, "onnxruntime 1")
    loading = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
    async with asking(app) as client:
        for path in ("/health", "/v1/models", "/slots", "/props"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()) == (503, loading)
        assert (await client.post(EMBED, json={})).status_code == 503
        client.headers.pop("Authorization")
        assert (await client.get("/health")).status_code == 503
        assert (await client.get("/slots")).status_code == 401
        app.serve(served(echo))
        answer = await client.get("/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("given", [None, "Bearer", "Bearer other", "Basic the-key", "the-key"])
async def test_without_the_key(given: str | None) -> None:
    async with asking(engine()) as client:
        client.headers.pop("Authorization")
        headers = {} if given is None else {"Authorization": given}
        answer = await client.post(EMBED, json={}, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"] == {
            "code": 401,
            "message": "Invalid API Key",
            "type": "authentication_error",
        }


async def test_what_it_tells() -> None:
    async with asking(engine()) as client:
        assert (await client.get("/props")).json() == {
            "build_info": "onnxruntime 1",
            "total_slots": 2,
            "model_alias": "team/tiny",
            "device": "cpu",
            "limits": [{"option": "input_count", "minimum": 1, "maximum": 128}],
        }
        (model,) = (await client.get("/v1/models")).json()["data"]
        assert model["id"] == "team/tiny"
        assert model["architecture"] == {
            "input_modalities": ["text"],
            "output_modalities": ["vector"],
        }
        assert model["meta"] == {"n_embd": 16, "n_ctx_train": 48}
        assert (await client.get("/slots")).json() == [
            {"id": 0, "n_ctx": 48, "is_processing": False},
            {"id": 1, "n_ctx": 48, "is_processing": False},
        ]


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing", 404, "not_found_error"),
        ("GET", EMBED, 405, "invalid_request_error"),
        ("POST", "/health", 405, "invalid_request_error"),
        ("DELETE", "/props", 405, "invalid_request_error"),
        ("POST", "/v1/rerank", 501, "not_supported_error"),
        ("POST", "/v1/images/generations", 501, "not_supported_error"),
    ],
)
async def test_other_routes(method: str, path: str, status: int, kind: str) -> None:
    async with asking(engine()) as client:
        answer = await client.request(method, path)
        assert answer.status_code == status
        assert (answer.json()["error"]["code"], answer.json()["error"]["type"]) == (status, kind)


async def test_the_alias_names_the_model_that_a_call_does_not() -> None:
    async with asking(engine()) as client:
        assert (await client.post(EMBED, json={"a": 1})).json() == {"model": "team/tiny", "a": 1}
        assert (await client.post(EMBED, json={"model": "b"})).json() == {"model": "b"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b"[" * 3000, b'{"a":NaN}'])
async def test_bodies_that_are_no_objects(body: bytes) -> None:
    async with asking(engine()) as client:
        answer = await client.post(EMBED, content=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (Unfit("input_count is 129"), 400, "input_count is 129"),
        (EngineFault("it could not be run"), 500, "it could not be run"),
        (ValueError("/a/path/of/ours"), 500, "the engine failed: ValueError"),
    ],
)
async def test_a_call_that_fails(
    error: Exception, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(body: dict[str, object]) -> bytes:
        raise error

    async with asking(engine(fail)) as client:
        answer = await client.post(EMBED, json={})
        assert (answer.status_code, answer.json()["error"]["message"]) == (status, message)
        assert ("Traceback" in capsys.readouterr().err) is isinstance(error, ValueError)


async def test_a_body_that_is_too_long() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(33):
            yield bytes(1 << 20)

    async with asking(engine()) as client:
        told = await client.post(EMBED, content=bytes(MAX_REQUEST_BYTES + 1))
        untold = await client.post(EMBED, content=chunks())
        for answer in (told, untold):
            assert answer.status_code == 413
            assert answer.json()["error"]["type"] == "request_too_large_error"


class Gate:
    """A handler that works until it is let through, and counts its calls."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.calls: list[object] = []

    def __call__(self, body: dict[str, object]) -> bytes:
        self.calls.append(body["n"])
        assert self.open.wait(20)
        return b"{}"


class Caller:
    """One ASGI call whose caller can leave."""

    def __init__(self, app: EngineServer, number: int) -> None:
        self._left = asyncio.Event()
        self._asked = False
        self._body = orjson.dumps({"n": number})
        self.sent: list[dict[str, object]] = []
        headers = [(b"authorization", b"Bearer the-key")]
        scope = {"type": "http", "method": "POST", "path": EMBED, "headers": headers}
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    def leave(self) -> None:
        self._left.set()

    async def _receive(self) -> dict[str, object]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, object]) -> None:
        self.sent.append(message)


async def busy(client: httpx.AsyncClient) -> int:
    return sum(slot["is_processing"] for slot in (await client.get("/slots")).json())


async def test_who_leaves_while_waiting_is_not_worked_for() -> None:
    gate = Gate()
    app = engine(gate, slots=1)
    async with asking(app) as client:
        assert await busy(client) == 0
        working = Caller(app, 1)
        await eventually(lambda: gate.calls == [1], "the first call")
        waiting, leaving = Caller(app, 2), Caller(app, 3)
        await asyncio.sleep(0)
        assert await busy(client) == 1
        leaving.leave()
        await leaving.task
        gate.open.set()
        await asyncio.gather(working.task, waiting.task)
        assert gate.calls == [1, 2]
        assert leaving.sent == []
        assert [message["type"] for message in waiting.sent] == [
            "http.response.start",
            "http.response.body",
        ]
        assert await busy(client) == 0


async def test_work_for_a_caller_who_left_is_still_work() -> None:
    gate = Gate()
    app = engine(gate)
    async with asking(app) as client:
        caller = Caller(app, 1)
        await eventually(lambda: gate.calls == [1], "the first call")
        caller.leave()
        await caller.task
        assert await busy(client) == 1
        gate.open.set()
        await eventually(lambda: app.busy == 0, "no work")
        assert await busy(client) == 0
        assert caller.sent == []


async def test_whether_a_body_fits_is_told_without_work() -> None:
    def work(body: dict[str, object]) -> bytes:
        raise AssertionError("nobody asked for work")

    async with asking(engine(work)) as client:
        assert (await client.post(f"{EMBED}/check", json={"input": "a"})).json() == {"fits": True}
        refused = await client.post(f"{EMBED}/check", json={"input": "too long"})
        assert refused.status_code == 400
        assert "input_tokens 49" in refused.json()["error"]["message"]
        assert (await client.post("/v1/rerank/check", json={})).status_code == 501
        assert (await client.get(f"{EMBED}/check")).status_code == 405
        assert (await client.post("/check", json={})).status_code == 404


async def test_a_check_waits_for_no_slot() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(body: dict[str, object]) -> bytes:
        begun.set()
        assert go_on.wait(10)
        return b"{}"

    async with asking(engine(work, slots=1)) as client:
        busy = asyncio.create_task(client.post(EMBED, json={"input": "a"}))
        await asyncio.to_thread(begun.wait, 10)
        assert (await client.post(f"{EMBED}/check", json={"input": "a"})).status_code == 200
        go_on.set()
        assert (await busy).status_code == 200
