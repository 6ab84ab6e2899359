"""The OpenAI routes: bytes in, bytes out; and the errors that are ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumas_crds.served_model import ServedModel
from pumas_server.router.source import ModelRecord
from support.routers import SHARED_LOOP, RunningRouter, external, running_router
from support.upstream import Conversation, ScriptedUpstream

pytestmark = SHARED_LOOP

ROUTES = ["/v1/chat/completions", "/v1/completions"]


def answers(status: int, body: bytes, **headers: str) -> Any:
    async def script(talk: Conversation) -> None:
        lines = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
        head = f"HTTP/1.1 {status} X\r\n{lines}content-length: {len(body)}\r\n\r\n"
        await talk.send(head.encode() + body)

    return script


@pytest.mark.parametrize("route", ROUTES)
async def test_bytes_pass_and_only_the_models_name_is_replaced(
    router: RunningRouter, upstream: ScriptedUpstream, route: str
) -> None:
    before = '\r\n {"messages" : [ {"content":"žluť\\u00e9 \u2028 𝄞"} ],"model"\t:  '.encode()
    after = b' , "n":1.0e0,"n":2, "model_":"llm", "x":{"model":"llm"}}\n\n '
    answer = '{"a":1.50,\r\n "a":"ž",\t"b":[]}\n'.encode()
    upstream.script = answers(200, answer, content_type="application/json; charset=utf-8")
    status, headers, raw = await router.post(route, before + b'"ll\\u006d"' + after)
    assert (status, raw) == (200, answer)
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["content-length"] == str(len(answer))
    assert "x-pumas-outcome" not in headers
    (seen,) = upstream.seen
    assert seen.path == route
    assert seen.body == before + b'"served"' + after


@pytest.mark.parametrize("chunked", [False, True], ids=["with length", "chunked"])
async def test_an_empty_answer_passes(
    router: RunningRouter, upstream: ScriptedUpstream, chunked: bool
) -> None:
    async def empty(talk: Conversation) -> None:
        if chunked:
            await talk.head(200, "application/json")
            await talk.end()
        else:
            await talk.whole(200, b"")

    upstream.script = empty
    status, _, raw = await router.post(ROUTES[0], {"model": "llm"})
    assert (status, raw) == (200, b"")


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503, 599])
async def test_a_providers_error_passes_byte_for_byte(
    router: RunningRouter, upstream: ScriptedUpstream, status: int
) -> None:
    body = b'{ "error":{"message":"slots full at /models/x.gguf"} }\n'
    upstream.script = answers(status, body, content_type="application/json", retry_after="7")
    for streamed in (False, True):
        got, headers, raw = await router.post(ROUTES[0], {"model": "llm", "stream": streamed})
        assert (got, raw) == (status, body)
        assert headers["x-pumas-outcome"] == "unknown"
        assert headers["x-should-retry"] == "false"
        assert headers["retry-after"] == "7"
    assert len(upstream.seen) == 2


MALFORMED: dict[str, tuple[bytes, str]] = {
    "not JSON": (b'{"model":"llm"', "JSON"),
    "empty": (b"", "object"),
    "not UTF-8": (b'{"model":"\xff"}', "UTF-8"),
    "a list": (b'["model"]', "object"),
    "two documents": (b'{"model":"llm"}{}', "JSON"),
    "no model": (b'{"stream":true}', "model"),
    "two models": (b'{"model":"llm","mod\\u0065l":"llm"}', "duplicate"),
    "model is null": (b'{"model":null}', "model"),
    "model is empty": (b'{"model":""}', "model"),
    "model is a list": (b'{"model":["llm"]}', "model"),
    "too deep": (b'{"model":"llm","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deep"),
    "a number too long": (b'{"model":"llm","x":' + b"1" * 10_000 + b"}", "long"),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_request_is_400(
    router: RunningRouter, upstream: ScriptedUpstream, name: str
) -> None:
    body, named = MALFORMED[name]
    status, headers, raw = await router.post(ROUTES[0], body)
    error = json.loads(raw)["error"]
    assert (status, error["code"], error["type"]) == (
        400,
        "invalid_request",
        "invalid_request_error",
    )
    assert named in error["message"]
    assert set(error) == {"message", "type", "code"}
    assert headers["x-pumas-outcome"] == "not_admitted"
    assert headers["x-should-retry"] == "false"
    assert upstream.seen == []


async def test_which_model_a_name_means(router: RunningRouter, upstream: ScriptedUpstream) -> None:
    models = [
        external(upstream.url, "dup", profile="p1", model="m1"),
        external(upstream.url, "dup", profile="p2", model="m2"),
        external(upstream.url, "one", model="library/one"),
        external(upstream.url, "two", model="shared"),
        external(upstream.url, "three", model="shared"),
        external(upstream.url, "emb", task="feature-extraction", model="e"),
    ]
    upstream.script = answers(200, b"{}", content_type="application/json")
    upstream.models = {"data": [{"id": m} for m in ("m1", "m2", "library/one", "shared", "e")]}

    async with running_router(*models) as running:

        async def ask(name: str) -> tuple[int, str]:
            status, headers, raw = await running.post(ROUTES[0], {"model": name})
            if status == 200:
                return status, upstream.seen[-1].json["model"]
            assert headers["x-pumas-outcome"] == "not_admitted"
            return status, json.loads(raw)["error"]["code"]

        assert await ask("one") == (200, "library/one")
        assert await ask("library/one") == (200, "library/one")
        assert await ask("dup@p2") == (200, "m2")
        assert await ask("two@default") == (200, "shared")
        assert await ask("dup") == (409, "ambiguous_model")
        # A library id that several aliases have names none of them.
        assert await ask("shared") == (404, "model_not_found")
        assert await ask("dup@p3") == (404, "model_not_found")
        assert await ask("@p1") == (404, "model_not_found")
        assert await ask("nope") == (404, "model_not_found")
        assert await ask("\ud800") == (404, "model_not_found")
        assert await ask("n" * 1_000_000) == (404, "model_not_found")
        assert await ask("emb") == (400, "endpoint_unavailable")
        await running.idle()
        _, _, raw = await running.post(ROUTES[0], {"model": "dup"})
        assert "dup@p1, dup@p2" in json.loads(raw)["error"]["message"]
    upstream.models = {"data": [{"id": "served"}]}


STATES: list[tuple[str, str | None, int, str]] = [
    ("unloaded", None, 409, "model_not_ready"),
    ("requested", None, 409, "model_not_ready"),
    ("loading", None, 409, "model_not_ready"),
    ("unloading", None, 409, "model_not_ready"),
    ("loaded", None, 503, "capability_unavailable"),
    ("failed", "NotAModel", 500, "model_load_failed"),
    ("failed", "EngineFailed", 503, "model_load_failed"),
]


@pytest.mark.parametrize(("state", "reason", "status", "code"), STATES)
async def test_a_model_of_ours_that_cannot_answer(
    upstream: ScriptedUpstream,
    router: RunningRouter,
    state: str,
    reason: str | None,
    status: int,
    code: str,
) -> None:
    told: dict[str, Any] = {"loadState": state}
    if reason:
        told["error"] = {"reason": reason, "message": "so it is"}
    model = ServedModel.model_validate(
        {
            "metadata": {"name": "ours", "uid": "u"},
            "spec": {"source": {"path": "/weights/secret.gguf"}, "task": "text-generation"},
            "status": told,
        }
    )
    async with running_router(ModelRecord(model, "hash", ()), ready=False) as running:
        await running.until(lambda c: bool(c.rows))
        got, headers, raw = await running.post(ROUTES[0], {"model": "ours"})
        error = json.loads(raw)["error"]
        assert (got, error["code"]) == (status, code)
        assert ("retry-after" in headers) is (status == 503)
        assert headers["x-pumas-outcome"] == "not_admitted"
        assert headers["x-should-retry"] == "false"
        assert "/weights" not in error["message"]
        if reason:
            assert f"{reason}: so it is" in error["message"]


async def test_no_task_and_no_architecture_still_passes(
    upstream: ScriptedUpstream, router: RunningRouter
) -> None:
    upstream.script = answers(200, b"{}", content_type="application/json")
    async with running_router(external(upstream.url, task=None)) as running:
        assert (await running.post(ROUTES[0], {"model": "llm"}))[0] == 200
        assert len(upstream.seen) == 1
