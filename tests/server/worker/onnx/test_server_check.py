"""Questions to the ONNX engine about a body that it cannot answer with yes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from pumas_server.contract.bounds import MAX_REQUEST_BYTES
from pumas_server.worker.onnx.fault import EngineFault
from pumas_server.worker.onnx.served import Served, Unfit
from pumas_server.worker.onnx.server import EngineServer

EMBED = "/v1/embeddings"
CHECK = f"{EMBED}/check"
Check = Callable[[dict[str, object]], None]


def engine(check: Check, slots: int = 1) -> EngineServer:
    def work(body: dict[str, object]) -> bytes:
        raise AssertionError("a question is no work")

    app = EngineServer("team/tiny", "key", slots, "onnxruntime 1")
    app.serve(Served({EMBED: work}, {EMBED: check}, ("text",), ("vector",), "cpu"))
    return app


async def ask(app: EngineServer, path: str = CHECK, method: str = "POST", **how: Any) -> Any:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        headers = {"Authorization": "Bearer key"} | how.pop("headers", {})
        return await client.request(method, path, headers=headers, **how)


def fits(body: dict[str, object]) -> None:
    """Everything does."""


@pytest.mark.parametrize(
    ("fault", "status", "message"),
    [
        (Unfit("input[0] has input_tokens 60; the limit is 48"), 400, "the limit is 48"),
        (EngineFault("the session is gone"), 500, "the session is gone"),
        (KeyError("/secret/place"), 500, "the engine failed: KeyError"),
    ],
)
async def test_what_does_not(fault: Exception, status: int, message: str) -> None:
    def check(body: dict[str, object]) -> None:
        raise fault

    answer = await ask(engine(check), json={})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, status)
    assert error["message"].endswith(message) and "secret" not in error["message"]


@pytest.mark.parametrize(
    ("path", "method", "content", "status"),
    [
        (CHECK, "GET", b"", 405),
        (CHECK, "POST", b"no json", 400),
        (CHECK, "POST", b"[]", 400),
        ("/v1/rerank/check", "POST", b"{}", 501),
        ("/v1/models/check", "POST", b"{}", 404),
        ("/check", "POST", b"{}", 404),
        (f"{CHECK}/check", "POST", b"{}", 404),
    ],
)
async def test_other_questions(path: str, method: str, content: bytes, status: int) -> None:
    answer = await ask(engine(fits), path, method, content=content)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == status


async def test_it_needs_the_key_a_model_and_a_bounded_body() -> None:
    app = engine(fits)
    assert (await ask(app, json={}, headers={"Authorization": "Bearer x"})).status_code == 401
    long = {"content-length": str(MAX_REQUEST_BYTES + 1)}
    assert (await ask(app, content=b"{}", headers=long)).status_code == 413
    loading = EngineServer("team/tiny", "key", 1, "onnxruntime 1")
    assert (await ask(loading, json={})).status_code == 503
