"""Finite operations and refusals through the real router; numbers are those of the handed cases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.routers import (
    SHARED_LOOP,
    RunningRouter,
    chat_operation,
    external,
    running_router,
)
from support.upstream import DONE, Conversation, ScriptedUpstream, event, text

pytestmark = SHARED_LOOP

MIB_32 = 33_554_432


def text_operation(**changes: Any) -> dict[str, Any]:
    given = {"capability": ..., "input": {"kind": "text", "text": "Hello"}}
    return chat_operation(**(given | changes))


async def test_case_1_a_finite_answer_holds_nothing_private(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    private = {"id": "chatcmpl-1", "model": "/models/secret.gguf", "usage": {"total_tokens": 3}}

    async def talkative(talk: Conversation) -> None:
        choice = {"index": 0, "delta": {"content": "hello", "x": 1}, "finish_reason": "stop"}
        await talk.stream(event({**private, "choices": [{**choice, "logprobs": None}]}), DONE)

    upstream.script = talkative
    status, headers, raw = await router.post("/v1/model-operations", chat_operation())
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] == str(len(raw))
    assert json.loads(raw) == {
        "contract_version": 1,
        "request_id": "r1",
        "result": {"kind": "text", "text": "hello", "finish_reason": "stop"},
    }
    assert len(upstream.seen) == 1


async def test_case_2_what_goes_upstream(router: RunningRouter, upstream: ScriptedUpstream) -> None:
    operation = chat_operation(
        request_id="who-asked:1",
        semantic_task="chat_generation",
        options={"kind": "text_generation", "max_tokens": 7, "temperature": 0, "top_p": 0.5},
    )
    assert (await router.operate(operation))[0] == 200
    (seen,) = upstream.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.json == {
        "model": "served",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "n": 1,
        "max_tokens": 7,
        "temperature": 0,
        "top_p": 0.5,
    }
    everything = json.dumps(seen.headers).encode() + seen.body
    for private in (b"who-asked", b"idempotency", b"request_id", b"semantic_task", b"capability"):
        assert private not in everything.lower()
    assert set(seen.headers) == {
        "host",
        "accept",
        "content-type",
        "accept-encoding",
        "content-length",
    }
    assert seen.headers["accept-encoding"] == "identity"


async def test_case_23_a_text_goes_to_the_completions_route(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async def complete(talk: Conversation) -> None:
        await talk.stream(text("wor"), text("ld", "length"), DONE)

    upstream.script = complete
    status, body = await router.operate(text_operation(capability="text_generation"))
    assert status == 200
    assert body["result"] == {"kind": "text", "text": "world", "finish_reason": "length"}
    (seen,) = upstream.seen
    assert seen.path == "/v1/completions"
    assert seen.json == {"model": "served", "prompt": "Hello", "stream": True, "n": 1}


async def test_a_text_is_one_user_message_of_a_chat(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    assert (await router.operate(text_operation(capability="chat_generation")))[0] == 200
    (seen,) = upstream.seen
    assert seen.json["messages"] == [{"role": "user", "content": "Hello"}]


async def test_two_calls_of_one_request_id_are_two_calls(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    for _ in range(2):
        assert (await router.operate(chat_operation(request_id="same")))[0] == 200
    assert len(upstream.seen) == 2


REFUSED: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "case 12 unknown model": (chat_operation(model="nope"), 404, "model_not_found", "nope"),
    "case 15 absent profile": (chat_operation(profile="absent"), 404, "model_not_found", "absent"),
    "case 21 ambiguous": (text_operation(), 409, "ambiguous_operation", "text_generation"),
    "case 3 unknown field": (chat_operation(extra=1), 400, "invalid_request", "extra"),
    "case 8 version": (chat_operation(contract_version=2), 400, "unsupported_contract", "2"),
    "case 94 later input": (
        chat_operation(
            capability=...,
            options=...,
            input={"kind": "rerank", "query": "q", "documents": ["d"]},
            output="relevance_scores",
        ),
        422,
        "unsupported_modality",
        "rerank",
    ),
    "case 52 later capability": (
        chat_operation(
            capability="audio_transcription",
            input={
                "kind": "audio",
                "encoding": "pcm_s16le",
                "sample_rate_hz": 16000,
                "channels": 1,
                "sample_count": 1,
                "data_base64": "AAA=",
            },
            options=...,
        ),
        503,
        "capability_unavailable",
        "unqualified_audio_runtime",
    ),
    "malformed beats unknown model": (
        chat_operation(model="nope", options={"kind": "text_generation", "max_tokens": 0}),
        400,
        "invalid_request",
        "max_tokens",
    ),
}


@pytest.mark.parametrize(
    ("name", "streamed"),
    [(name, s) for name in REFUSED for s in (False, True) if not (s and "later" in name)],
)
async def test_a_refusal_reaches_no_provider(
    router: RunningRouter, upstream: ScriptedUpstream, name: str, streamed: bool
) -> None:
    operation, status, code, named = REFUSED[name]
    got, headers, raw = await router.post("/v1/model-operations", operation | {"stream": streamed})
    body = json.loads(raw)
    assert (got, body["error"]["code"]) == (status, code)
    assert body["error"]["outcome"] == headers["x-pumas-outcome"] == "not_admitted"
    assert body["contract_version"] == 1
    assert body["request_id"] == "r1"
    assert named in body["error"]["message"]
    assert headers["content-type"] == "application/json"
    assert headers.get("x-should-retry") == ("false" if status == 409 else None)
    assert upstream.seen == []


async def test_case_7_no_id_is_rescued_from_what_is_no_json(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    for body in (b'{"request_id":"r1"', b"[1]", b"\xff", b"", b'{"request_id":"a b"}'):
        status, answer = await router.operate(body)
        assert (status, answer["request_id"]) == (400, None), body
    assert upstream.seen == []


@pytest.mark.parametrize("path", ["/v1/model-operations", "/v1/chat/completions"])
async def test_case_16_an_announced_body_over_the_bound_is_refused_unread(
    router: RunningRouter, upstream: ScriptedUpstream, path: str
) -> None:
    async with router.raw(path, b"{", announced=MIB_32 + 1) as (reader, _):
        assert b" 413 " in await reader.readline()
    assert upstream.seen == []


@pytest.mark.parametrize("chunked", [False, True], ids=["with length", "chunked"])
@pytest.mark.parametrize("path", ["/v1/model-operations", "/v1/chat/completions"])
async def test_case_16_a_body_one_byte_over_the_bound(
    router: RunningRouter, upstream: ScriptedUpstream, path: str, chunked: bool
) -> None:
    piece = b" " * 65_536

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(MIB_32 // len(piece)):
            yield piece
        yield b" "

    length = {} if chunked else {"content-length": str(MIB_32 + 1)}
    async with router.client.post(path, data=pieces(), headers=length) as answer:
        body = await answer.json()
    assert answer.status == 413
    assert body["error"]["code"] == "request_limit"
    assert "33554432" in body["error"]["message"]
    if path == "/v1/model-operations":
        assert body["request_id"] is None
        assert body["error"]["outcome"] == "not_admitted"
    assert answer.headers["x-pumas-outcome"] == "not_admitted"
    assert upstream.seen == []


async def test_case_16_a_body_of_exactly_the_bound_is_read(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    body = json.dumps(chat_operation()).encode()
    status, _ = await router.operate(body + b" " * (MIB_32 - len(body)))
    assert status == 200
    assert len(upstream.seen) == 1


async def test_a_long_body_goes_upstream_whole(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    content = "ä" * 2_000_000
    operation = chat_operation(
        input={"kind": "messages", "messages": [{"role": "user", "content": content}]}
    )
    assert (await router.operate(operation))[0] == 200
    assert upstream.seen[0].json["messages"][0]["content"] == content


async def test_case_13_an_alias_of_two_profiles_needs_one(
    upstream: ScriptedUpstream, router: RunningRouter
) -> None:
    duplicate = [external(upstream.url, "dup", profile=p) for p in ("p1", "p2")]
    async with running_router(*duplicate) as running:
        status, body = await running.operate(chat_operation(model="dup"))
        assert (status, body["error"]["code"]) == (409, "ambiguous_model")
        assert "p1, p2" in body["error"]["message"]
        assert upstream.seen == []
        assert (await running.operate(chat_operation(model="dup", profile="p2")))[0] == 200
        assert len(upstream.seen) == 1


async def test_case_32_a_model_whose_runtime_does_not_answer(
    upstream: ScriptedUpstream, router: RunningRouter
) -> None:
    async with running_router(external("http://127.0.0.1:1", "cold"), ready=False) as running:
        await running.until(lambda c: bool(c.rows) and c.rows[0].error is not None)
        status, headers, raw = await running.post(
            "/v1/model-operations", chat_operation(model="cold")
        )
        error = json.loads(raw)["error"]
        assert (status, error["code"]) == (503, "capability_unavailable")
        assert error["outcome"] == "not_admitted"
        assert "runtime_unavailable" in error["message"]
        assert "NoEndpoint" in error["message"]
        assert "127.0.0.1" not in error["message"]
        assert headers["retry-after"] == "1"
        await running.idle()


async def test_a_refused_model_tells_why_it_was_refused(
    upstream: ScriptedUpstream, router: RunningRouter
) -> None:
    fault = {"reason": "NotAModel", "message": "the file is no GGUF"}
    record = external(upstream.url, "broken", loadState="failed", error=fault)
    refused = record.__class__(record.model, "hash", ())
    async with running_router(refused, ready=False) as running:
        await running.until(lambda c: bool(c.rows))
        status, body = await running.operate(chat_operation(model="broken"))
        assert (status, body["error"]["code"]) == (503, "capability_unavailable")
        assert "NotAModel: the file is no GGUF" in body["error"]["message"]
    assert upstream.seen == []
