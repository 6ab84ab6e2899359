"""The list routes, their closed query, and what every other path of `/v1` answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, external, running_router
from support.upstream import ScriptedUpstream

pytestmark = SHARED_LOOP

#: What the contract gives each of these bodies. They grow additively: by the members named last.
ROOT = {
    "supported_contract_versions",
    "max_request_bytes",
    "max_response_bytes",
    "max_stream_event_bytes",
}
MODEL = {
    "model",
    "profile",
    "model_id",
    "provider",
    "load_state",
    "context_tokens",
    "profile_required",
    "modalities",
    "capabilities",
}
ADDED_TO_MODEL = {"error"}
ORDER = [
    "chat_generation",
    "text_generation",
    "text_embedding",
    "image_generation",
    "audio_transcription",
    "audio_classification",
    "image_to_text",
    "multimodal_embedding",
    "decision",
    "rerank",
]
TEXT_BOUNDS = [
    {"option": "max_tokens", "minimum": 1, "maximum": 2048},
    {"option": "temperature", "minimum": 0, "maximum": 2},
    {"option": "top_p", "minimum": 0, "maximum": 1},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def listed(shared_upstream: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    """A loaded model, one under two profiles, one with slashes, and one that does not answer."""
    shared_upstream.models = {"data": [{"id": "served", "meta": {"n_ctx": 2048}}]}
    url = shared_upstream.url
    models = [
        external(url, "llm"),
        external(url, "dup", profile="p2"),
        external(url, "dup", profile="p1"),
        external(url, "org/name"),
        external("http://127.0.0.1:1", "cold"),
        external(url, "loser", error={"reason": "DuplicateIdentity"}),
    ]
    async with running_router(*models, ready=False) as running:
        await running.until(
            lambda c: len(c.rows) == 5 and all(r.targets or r.error for r in c.rows)
        )
        yield running


async def read(running: RunningRouter, path: str) -> tuple[int, Any]:
    status, headers, raw = await running.get(path)
    assert headers["content-type"] == "application/json"
    return status, json.loads(raw)


async def test_served_models(listed: RunningRouter) -> None:
    status, body = await read(listed, "/v1/served-models")
    assert status == 200
    assert set(body) == ROOT | {"models"}
    assert [(m["model"], m["profile"]) for m in body["models"]] == [
        ("cold", "default"),
        ("dup", "p1"),
        ("dup", "p2"),
        ("llm", "default"),
        ("org/name", "default"),
    ]
    for model in body["models"]:
        assert MODEL - {"context_tokens"} <= set(model) <= MODEL | ADDED_TO_MODEL
        assert model["profile_required"] is (model["model"] == "dup")
        assert [c["capability"] for c in model["capabilities"]] == ORDER
    llm = body["models"][3]
    golden = {key: value for key, value in llm.items() if key != "capabilities"}
    assert golden == {
        "model": "llm",
        "profile": "default",
        "model_id": "served",
        "provider": "openai_compatible",
        "load_state": "loaded",
        "context_tokens": 2048,
        "profile_required": False,
        "modalities": {"input": ["text"], "output": ["text"]},
    }
    assert llm["capabilities"][0] == {
        "capability": "chat_generation",
        "semantic_task": "chat_generation",
        "input_formats": ["messages_text"],
        "output_formats": ["text"],
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "streaming": True,
        "availability": {"state": "available"},
        "option_bounds": TEXT_BOUNDS,
    }
    assert llm["capabilities"][4] == {
        "capability": "audio_transcription",
        "semantic_task": "speech_to_text",
        "input_formats": ["pcm_s16le", "pcm_f32le"],
        "output_formats": ["text"],
        "input_modalities": [],
        "output_modalities": ["text"],
        "streaming": False,
        "availability": {"state": "unavailable", "reason": "unqualified_audio_runtime"},
        "option_bounds": [{"option": "max_output_tokens", "minimum": 512, "maximum": 512}],
    }
    cold = body["models"][0]
    assert cold["load_state"] == "loading"
    assert cold["error"]["reason"] == "NoEndpoint"
    assert cold["modalities"] == {"input": [], "output": []}


async def test_case_79_capabilities(listed: RunningRouter) -> None:
    status, body = await read(listed, "/v1/capabilities?model=llm")
    assert status == 200
    assert set(body) == ROOT | {"model", "profile", "context_tokens", "modalities", "capabilities"}
    assert body["supported_contract_versions"] == [1]
    assert (body["model"], body["profile"]) == ("llm", "default")
    assert body["max_request_bytes"] == body["max_response_bytes"] == 33_554_432
    assert body["max_stream_event_bytes"] == 262_144
    first, second = body["capabilities"][:2]
    for descriptor in (first, second):
        assert descriptor["availability"] == {"state": "available"}
        assert descriptor["streaming"] is True
    for descriptor in body["capabilities"][4:6]:
        assert descriptor["availability"]["reason"] == "unqualified_audio_runtime"
    for descriptor in body["capabilities"]:
        names = [bound["option"] for bound in descriptor["option_bounds"]]
        assert len(names) == len(set(names))
        assert all(b["minimum"] <= b["maximum"] for b in descriptor["option_bounds"])
    served = (await read(listed, "/v1/served-models"))[1]["models"][3]
    assert body["capabilities"] == served["capabilities"]


async def test_case_81_capabilities_of_an_ambiguous_or_unknown_model(
    listed: RunningRouter,
) -> None:
    for query, status, code in (
        ("model=dup", 409, "ambiguous_model"),
        ("model=nope", 404, "model_not_found"),
        ("model=llm&profile=absent", 404, "model_not_found"),
        ("model=dup@p1", 404, "model_not_found"),
        ("model=served", 404, "model_not_found"),
    ):
        got, body = await read(listed, f"/v1/capabilities?{query}")
        assert (got, body["error"]["code"]) == (status, code), query
        assert body["contract_version"] == 1
        assert body["request_id"] is None
        assert body["error"]["outcome"] == "not_admitted"
    assert (await read(listed, "/v1/capabilities?model=dup&profile=p1"))[0] == 200
    assert (await read(listed, "/v1/capabilities?profile=%20p2%20&model=dup"))[1]["profile"] == "p2"


async def test_case_82_capabilities_of_a_model_that_does_not_answer(listed: RunningRouter) -> None:
    status, body = await read(listed, "/v1/capabilities?model=cold")
    assert status == 200
    assert body["error"]["reason"] == "NoEndpoint"
    for descriptor in body["capabilities"][:2]:
        assert descriptor["availability"] == {
            "state": "unavailable",
            "reason": "runtime_unavailable",
        }
        assert descriptor["streaming"] is False


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?model",
        "?model=",
        "?profile=p1",
        "?model=llm&model=llm",
        "?model=llm&profile=a&profile=a",
        "?model=llm&unknown=1",
        "?Model=llm",
        "?model=llm&",
        "?model=llm&profile=",
        "?model=llm&profile=%20",
        "?model=%zz",
        "?model=llm%",
        "?model=llm%2",
        "?model=%ff",
        "?mod%65l=llm&model=llm",
    ],
)
async def test_the_query_of_capabilities_is_closed(listed: RunningRouter, query: str) -> None:
    status, body = await read(listed, f"/v1/capabilities{query}")
    assert (status, body["error"]["code"]) == (400, "invalid_request")
    assert body["error"]["outcome"] == "not_admitted"
    assert body["request_id"] is None


async def test_case_85_each_model_once_with_its_profiles(listed: RunningRouter) -> None:
    status, body = await read(listed, "/v1/models")
    assert status == 200
    assert body == {
        "object": "list",
        "data": [
            {
                "id": name,
                "object": "model",
                "created": 0,
                "owned_by": "pumas",
                "profiles": profiles,
            }
            for name, profiles in (
                ("dup", ["p1", "p2"]),
                ("llm", ["default"]),
                ("org/name", ["default"]),
            )
        ],
    }


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("x=1", "unknown query field `x`"),
        ("model=llm", "unknown query field `model`"),
        ("=", "unknown query field ``"),
        ("%zz", "the query holds a `%` that escapes nothing"),
    ],
)
async def test_the_list_of_all_takes_no_query(
    listed: RunningRouter, query: str, words: str
) -> None:
    status, body = await read(listed, f"/v1/served-models?{query}")
    assert (status, body["error"]["code"]) == (400, "invalid_request")
    assert body["error"]["message"] == f"request does not match the contract: {words}"
    assert (body["request_id"], body["error"]["outcome"]) == (None, "not_admitted")
    assert (await read(listed, "/v1/served-models?"))[0] == 200


async def test_one_model(listed: RunningRouter) -> None:
    for path in ("org/name", "org%2Fname"):
        status, body = await read(listed, f"/v1/models/{path}")
        assert (status, body["id"]) == (200, "org/name")
    for path in ("nope", "cold", "org", "org/name/", ""):
        status, body = await read(listed, f"/v1/models/{path}")
        assert status == 404, path
        assert set(body) == {"error"}
        assert body["error"]["code"] in ("model_not_found", "not_found")


@pytest.mark.parametrize(
    "path", ["/v1/served-models", "/v1/capabilities?model=llm", "/v1/models", "/healthz", "/readyz"]
)
async def test_head_is_get_without_the_body(listed: RunningRouter, path: str) -> None:
    _, headers, raw = await listed.get(path)
    async with listed.client.head(path) as answer:
        assert answer.status == 200
        assert answer.headers["content-length"] == headers["content-length"] == str(len(raw))
        assert answer.headers["content-type"] == headers["content-type"]
        assert await answer.read() == b""


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/model-operations", {"POST"}),
        ("HEAD", "/v1/model-operations", {"POST"}),
        ("PUT", "/v1/chat/completions", {"POST"}),
        ("GET", "/v1/completions", {"POST"}),
        ("POST", "/v1/capabilities", {"GET", "HEAD"}),
        ("DELETE", "/v1/models", {"GET", "HEAD"}),
        ("POST", "/v1/models/llm", {"GET", "HEAD"}),
        ("OPTIONS", "/v1/served-models", {"GET", "HEAD"}),
        ("PATCH", "/healthz", {"GET", "HEAD"}),
    ],
)
async def test_case_18_a_method_that_a_route_does_not_take(
    listed: RunningRouter, method: str, path: str, allowed: set[str]
) -> None:
    async with listed.client.request(method, path) as answer:
        assert answer.status == 405
        assert {m.strip() for m in answer.headers["allow"].split(",")} == allowed
        assert answer.headers["x-pumas-outcome"] == "not_admitted"
        if method != "HEAD":
            body = await answer.json()
            assert body["error"]["code"] == "method_not_allowed"
            assert set(body["error"]) == {"message", "type", "code"}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/model-operations/",
        "/v1/chat/completions/",
        "/v1/served-models/",
        "/v1/audio/speech",
        "/v1/chat",
        "/V1/models",
        "/v1//models",
        "/nothing",
        "/docs",
    ],
)
async def test_case_18_no_such_route(listed: RunningRouter, method: str, path: str) -> None:
    async with listed.client.request(method, path, allow_redirects=False) as answer:
        assert answer.status == 404
        body = await answer.json()
        assert body["error"]["code"] == "not_found"
        assert set(body["error"]) == {"message", "type", "code"}
        assert answer.headers["x-pumas-outcome"] == "not_admitted"
        assert answer.headers["x-should-retry"] == "false"


async def test_discovery_asks_no_provider(
    listed: RunningRouter, shared_upstream: ScriptedUpstream
) -> None:
    asked = shared_upstream.asked
    for _ in range(20):
        await listed.get("/v1/served-models")
        await listed.get("/v1/capabilities?model=llm")
    # Nor does the cold model's probing (every 2 s, elsewhere) count here.
    assert shared_upstream.asked == asked
    await eventually(lambda: not len(listed.router.sessions), "no session was opened")
