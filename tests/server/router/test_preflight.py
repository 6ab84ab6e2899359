"""An engine of ours is asked before a call whether the input fits, where it may not."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image as Picture

from pumas_crds.served_model import ServedModel
from pumas_server.router import upstream as upstream_module
from pumas_server.router.source import Endpoint, ModelRecord
from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, running_router
from support.senses import image_part
from support.upstream import Conversation, ScriptedUpstream

pytestmark = SHARED_LOOP

TOKENS = 48
#: How every refusal of a request begins.
PREFIX = "request does not match the contract: "
LIMITS = [
    {"option": "input_count", "minimum": 1, "maximum": 128},
    {"option": "input_characters", "minimum": 0, "maximum": 65_536},
    {"option": "input_tokens", "minimum": 1, "maximum": TOKENS},
]
#: What a supervisor tells of an engine, by the model.
ENGINES: dict[str, dict[str, Any]] = {
    "emb": {"mode": "embed", "takes": ["text"], "gives": ["vector"], "limits": LIMITS},
    "mme": {"mode": "embed", "takes": ["text", "image"], "gives": ["vector"], "limits": LIMITS},
    "lemb": {"mode": "embed", "takes": ["text"], "gives": ["vector"]},
    "rr": {"mode": "rerank", "takes": ["text"], "gives": ["json"], "limits": LIMITS[2:]},
    "img": {
        "mode": "generate-image",
        "takes": ["text"],
        "gives": ["image"],
        "limits": [
            {"option": "width", "minimum": 8, "maximum": 64},
            {"option": "height", "minimum": 8, "maximum": 64},
        ],
    },
}


class Engine:
    """A scripted engine; `check` answers its questions, `call` the rest."""

    def __init__(self) -> None:
        self.upstream = ScriptedUpstream(self.talk)
        self.status, self.body = 200, b'{"fits":true}'
        self.hangs = self.breaks = False
        self.call: tuple[int, Any] | None = None

    async def talk(self, talk: Conversation) -> None:
        if talk.request.path.endswith("/check"):
            if self.hangs:
                await talk.caller_left()
            elif self.breaks:
                talk.reset()
            else:
                await talk.whole(self.status, self.body)
            return
        status, answer = self.call or (200, self._answer(talk))
        await talk.whole(status, json.dumps(answer).encode())

    def _answer(self, talk: Conversation) -> Any:
        asked = talk.request.json
        if talk.request.path == "/v1/rerank":
            return {"results": [{"index": 0, "relevance_score": 1.0}]}
        count = len(asked["input"]) if isinstance(asked["input"], list) else 1
        return {"data": [{"index": n, "embedding": [1.0, 0.0]} for n in range(count)]}

    def asked(self) -> list[str]:
        return [request.path for request in self.upstream.seen]


def record(alias: str, engine: str, supervisor: str) -> ModelRecord:
    runtime = "llama.cpp" if alias == "lemb" else "onnxruntime"
    model = ServedModel.model_validate(
        {
            "metadata": {"name": alias, "uid": f"uid-of-{alias}"},
            "spec": {"source": {"path": "/m/model.onnx"}, "runtime": runtime},
            "status": {"loadState": "loaded"},
        }
    )
    return ModelRecord(model, "hash", (Endpoint(f"{alias}-0", engine, supervisor, True, "key"),))


def telling(alias: str) -> ScriptedUpstream:
    told = ENGINES[alias]
    runtime = {
        "slots": 4,
        "input_modalities": told["takes"],
        "output_modalities": told["gives"],
        "embedding_width": 2,
        "limits": told.get("limits"),
    }
    body = {"state": "ready", "boot_id": "boot", "mode": told["mode"], "runtime": runtime}

    async def tell(talk: Conversation) -> None:
        await talk.whole(200, json.dumps(body).encode())

    return ScriptedUpstream(listing=tell)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[tuple[RunningRouter, Engine]]:
    engine = Engine()
    supervisors = {alias: telling(alias) for alias in ENGINES}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(engine.upstream.serving())
        for supervisor in supervisors.values():
            await stack.enter_async_context(supervisor.serving())
        records = [record(a, engine.upstream.url, s.url) for a, s in supervisors.items()]
        async with running_router(*records) as router:
            await router.until(lambda c: all(r.facts.ready for r in c.rows))
            yield router, engine


@pytest_asyncio.fixture(loop_scope="module")
async def router(shared: tuple[RunningRouter, Engine]) -> AsyncIterator[RunningRouter]:
    yield shared[0]
    await shared[0].idle()


@pytest.fixture
def engine(shared: tuple[RunningRouter, Engine]) -> Engine:
    engine = shared[1]
    engine.upstream.seen.clear()
    engine.status, engine.body, engine.call = 200, b'{"fits":true}', None
    engine.hangs = engine.breaks = False
    return engine


def embed(model: str, *texts: str) -> dict[str, Any]:
    return {
        "contract_version": 1,
        "request_id": "p:1",
        "model": model,
        "input": {"kind": "text_batch", "texts": list(texts)},
        "output": "embeddings_float32",
    }


def refusal(message: str) -> bytes:
    return json.dumps({"error": {"code": 400, "message": message}}).encode()


async def test_what_cannot_fit_is_refused_before_it_is_admitted(
    router: RunningRouter, engine: Engine
) -> None:
    engine.status, engine.body = 400, refusal("input[1] has input_tokens 60; the limit is 48")
    status, headers, raw = await router.post("/v1/model-operations", embed("emb", "a", "b" * 60))
    error = json.loads(raw)["error"]
    assert (status, error["code"], error["outcome"]) == (400, "invalid_request", "not_admitted")
    assert error["message"] == PREFIX + "input[1] has input_tokens 60; the limit is 48"
    assert headers["x-pumas-outcome"] == "not_admitted"
    assert engine.asked() == ["/v1/embeddings/check"]
    (question,) = engine.upstream.seen
    assert question.headers["authorization"] == "Bearer key"
    assert question.headers["content-type"] == "application/json"
    assert question.json["input"] == ["a", "b" * 60], "it is asked about the very call"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"no json", "the engine does not take this input"),
        (b"[]", "the engine does not take this input"),
        (b'{"error":{"message":7}}', "the engine does not take this input"),
        (refusal("see /opt/model.onnx at 10.0.0.7:8080"), ""),
    ],
)
async def test_a_refusal_in_other_words(
    router: RunningRouter, engine: Engine, body: bytes, message: str
) -> None:
    engine.status, engine.body = 400, body
    status, answer = await router.operate(embed("emb", "b" * 60))
    assert status == 400
    told = answer["error"]["message"]
    assert told.startswith(PREFIX + message)
    assert "/opt" not in told and "10.0.0.7" not in told


@pytest.mark.parametrize("status", [200, 401, 404, 413, 500, 501, 503])
async def test_any_other_answer_lets_the_call_go_on(
    router: RunningRouter, engine: Engine, status: int
) -> None:
    engine.status = status
    assert (await router.operate(embed("emb", "b" * 60)))[0] == 200
    assert engine.asked() == ["/v1/embeddings/check", "/v1/embeddings"]


@pytest.mark.parametrize("fault", ["hangs", "breaks"])
async def test_a_question_without_an_answer_lets_the_call_go_on(
    router: RunningRouter, engine: Engine, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream_module, "ASK_SECONDS", 0.1)
    setattr(engine, fault, True)
    assert (await router.operate(embed("emb", "b" * 60)))[0] == 200
    assert engine.asked()[-1] == "/v1/embeddings"


async def test_what_the_engine_refuses_after_all_was_admitted(
    router: RunningRouter, engine: Engine
) -> None:
    engine.call = 400, {"error": {"message": "input[0] has input_tokens 60; the limit is 48"}}
    status, answer = await router.operate(embed("emb", "b" * 60))
    error = answer["error"]
    assert (status, error["code"], error["outcome"]) == (502, "provider_failure", "unknown")
    assert "the limit is 48" in error["message"]


async def test_a_caller_who_leaves_meanwhile(router: RunningRouter, engine: Engine) -> None:
    engine.hangs = True
    async with router.raw("/v1/model-operations", embed("emb", "b" * 60)) as (_, writer):
        await eventually(engine.asked, "the question")
        writer.transport.abort()
        await router.idle()
    assert engine.asked() == ["/v1/embeddings/check"]


async def test_what_fits_for_certain_is_not_asked_about(
    router: RunningRouter, engine: Engine
) -> None:
    assert (await router.operate(embed("emb", *["b" * 40] * 128)))[0] == 200
    assert engine.asked() == ["/v1/embeddings"]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a"] * 129, ("input_count", "129", "128")),
        (["b" * 65_537], ("input_characters", "65537", "65536")),
        (["b" * 40_000, "c" * 25_537], ("input_characters", "65537", "65536")),
    ],
)
async def test_a_stated_bound_needs_no_engine(
    router: RunningRouter, engine: Engine, texts: list[str], words: tuple[str, ...]
) -> None:
    status, answer = await router.operate(embed("emb", *texts))
    assert (status, answer["error"]["outcome"]) == (400, "not_admitted")
    assert all(word in answer["error"]["message"] for word in words)
    assert engine.asked() == []


async def test_an_engine_that_states_no_limit_is_not_asked(
    router: RunningRouter, engine: Engine
) -> None:
    assert (await router.operate(embed("lemb", "b" * 60_000)))[0] == 200
    assert engine.asked() == ["/v1/embeddings"]


async def test_query_and_document_are_one_input(router: RunningRouter, engine: Engine) -> None:
    body = embed("rr") | {
        "input": {"kind": "rerank", "query": "q" * 21, "documents": ["d" * 20]},
        "output": "relevance_scores",
    }
    assert (await router.operate(body))[0] == 200
    assert engine.asked() == ["/v1/rerank/check", "/v1/rerank"]


async def test_an_image_is_always_asked_about(router: RunningRouter, engine: Engine) -> None:
    engine.status, engine.body = 400, refusal("width is 12; this model allows multiples of 8")
    body = embed("img") | {
        "input": {"kind": "text", "text": "a cat"},
        "output": "png_base64",
        "options": {"kind": "image_generation", "width": 12, "height": 16},
    }
    status, answer = await router.operate(body)
    assert (status, answer["error"]["outcome"]) == (400, "not_admitted"), answer
    assert answer["error"]["message"] == PREFIX + "width is 12; this model allows multiples of 8"
    assert engine.asked() == ["/v1/images/generations/check"]


async def test_a_long_body_is_asked_about_in_pieces(router: RunningRouter, engine: Engine) -> None:
    """Of some mebibytes, which as one piece would hold up everybody's calls."""
    noise = Picture.frombytes("RGB", (500, 500), Random(1).randbytes(750_000))
    noise.save(file := io.BytesIO(), "PNG", compress_level=0)
    parts = [{"kind": "text", "text": "b" * 60}, image_part(file.getvalue())]
    items = [{"parts": parts}] * 3
    body = embed("mme") | {"input": {"kind": "content_batch", "items": items}}
    status, answer = await router.operate(body)
    assert status == 200, answer
    question, call = engine.upstream.seen
    assert question.path == "/v1/embeddings/check"
    assert question.body == call.body and len(call.body) > 2 << 20
