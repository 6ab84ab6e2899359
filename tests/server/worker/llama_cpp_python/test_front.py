"""The front before an application that stands for the library's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from pumas_server.worker.llama_cpp_python.bodies import Unfit
from pumas_server.worker.llama_cpp_python.front import Front
from pumas_server.worker.llama_cpp_python.library import Application, Loaded

COMPLETIONS = "/v1/completions"
LONG = "Requested tokens (9) exceed context window of 8"
EVENTS = ((b"content-type", b"text/event-stream; charset=utf-8"),)


def check(path: str, body: Mapping[str, object]) -> None:
    if body.get("prompt") == "unfit":
        raise Unfit("prompt: no")


def answering(status: int, body: bytes) -> Application:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def streaming(*parts: bytes, fault: Exception | None = None) -> Application:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert json.loads((await receive())["body"])["stream"] is True
        await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
        for part in (b"", *parts):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if fault is not None:
            raise ExceptionGroup("of a task", [fault])
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def front(app: Application, *, embeds: bool = False, key: str = "") -> Front:
    built = Front("team/tiny", key, "build 1", embeds)
    built.serve(Loaded(app, 512, 64, check))
    return built


async def post(app: Application, body: dict[str, Any], path: str = COMPLETIONS) -> httpx.Response:
    transport = httpx.ASGITransport(front(app, embeds="embeddings" in path))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        return await client.post(path, json=body)


async def test_while_it_loads_it_says_so() -> None:
    transport = httpx.ASGITransport(Front("a", "", "build", False))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        for path in ("/health", "/props", "/slots", "/v1/models"):
            assert (await client.get(path)).status_code == 503
        assert (await client.post(COMPLETIONS, json={})).status_code == 503


async def test_the_key_guards_all_but_health() -> None:
    transport = httpx.ASGITransport(front(answering(200, b"{}"), key="secret"))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/slots")).status_code == 401
        wrong = {"Authorization": "Bearer secre"}
        assert (await client.get("/slots", headers=wrong)).status_code == 401
        right = {"Authorization": "Bearer secret"}
        (slot,) = (await client.get("/slots", headers=right)).json()
        assert slot == {"id": 0, "n_ctx": 512, "is_processing": False}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/docs", 404),
        ("POST", "/v1/rerank", 501),
        ("POST", "/v1/systemone", 501),
        ("POST", "/v1/embeddings", 501),
        ("GET", "/v1/completions", 405),
        ("POST", "/props", 405),
        ("HEAD", "/health", 200),
    ],
)
async def test_what_reaches_the_library(method: str, path: str, status: int) -> None:
    async def never(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it was reached")

    transport = httpx.ASGITransport(front(never))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        assert (await client.request(method, path)).status_code == status


async def test_a_finite_answer() -> None:
    answer = await post(answering(200, b'{"choices":[]}'), {"prompt": "a"})
    assert (answer.status_code, answer.json()) == (200, {"choices": []})


@pytest.mark.parametrize(
    ("status", "message", "told"), [(500, LONG, 400), (400, "no", 400), (500, "boom", 500)]
)
async def test_errors_of_the_library(status: int, message: str, told: int) -> None:
    body = json.dumps({"error": {"message": message, "type": "x"}}).encode()
    answer = await post(answering(status, body), {"prompt": "a"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (told, message)


async def test_a_stream_begins_with_its_first_event() -> None:
    answer = await post(streaming(b"data: 1\n\n", b"data: [DONE]\n\n"), {"stream": True})
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text == "data: 1\n\ndata: [DONE]\n\n"


async def test_a_fault_before_the_first_event_is_a_status() -> None:
    answer = await post(streaming(fault=ValueError(LONG)), {"stream": True})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, LONG)


async def test_a_fault_after_it_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    fault = RuntimeError("a path /in/here")
    answer = await post(streaming(b"data: 1\n\n", fault=fault), {"stream": True})
    first, last, _ = answer.text.split("\n\n")
    assert first == "data: 1"
    error = json.loads(last.removeprefix("data: "))["error"]
    assert error["message"] == "the engine failed: RuntimeError"
    assert "[DONE]" not in answer.text
    assert "RuntimeError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"{", "no JSON"), (b"[1]", "JSON object"), (b'{"prompt":"unfit"}', "prompt: no")],
)
async def test_bodies_that_are_refused(content: bytes, word: str) -> None:
    transport = httpx.ASGITransport(front(answering(200, b"{}")))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        answer = await client.post(COMPLETIONS, content=content)
    assert answer.status_code == 400
    assert word in answer.json()["error"]["message"]


async def test_a_finite_call_whose_caller_leaves_is_dropped_and_frees_the_slot() -> None:
    started = asyncio.Event()

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    engine = front(waiting)
    received = [{"type": "http.request", "body": b'{"prompt":"a"}', "more_body": False}]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if received:
            return received.pop()
        await started.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": COMPLETIONS, "headers": []}
    await asyncio.wait_for(engine(scope, receive, send), 5)
    assert sent == []
    transport = httpx.ASGITransport(engine)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        assert (await client.get("/slots")).json()[0]["is_processing"] is False
        assert "requests_processing 0" in (await client.get("/metrics")).text
