"""Every capability of text on the real engine, with tiny models, through one `pumas serve`.

The numbers are those of the handed conformance cases.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.engines import engine_client
from support.serve import Serving, manifest, serve

#: One server for the module, hence one test process.
pytestmark = pytest.mark.xdist_group("serve-capabilities")

MODELS = {
    "chat": "tiny-chat",
    "emb": "tiny-embed",
    "rr": "tiny-rerank",
    "dec": "tiny-decision",
}
OFFERS = {
    "chat": "text_generation",
    "emb": "text_embedding",
    "rr": "rerank",
    "dec": "decision",
}
TEXTS = ["the cat sat on the mat", "a dog", "numbers 12345, and more"]
#: Documents 0 and 2 are equal, hence tie.
DOCUMENTS = ["the moon", "a long tale of two cities", "the moon"]
QUESTIONS: dict[str, Any] = {
    "mood": {
        "type": "choice",
        "instructions": "What is the mood?",
        "criteria": {"zest": "full of it", "calm": None, "anger": "very"},
    },
    "length": {"type": "score", "instructions": "How long is it?", "criteria": ["short", "long"]},
    "polite": {
        "type": "noul",
        "instructions": "Is it polite?",
        "criteria": {"true": "friendly words", "false": None},
    },
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Serving]:
    documents = [
        manifest(alias, source={"path": str(tiny_models / f"{file}.gguf")})
        for alias, file in MODELS.items()
    ]
    with serve(tmp_path_factory.mktemp("capabilities"), *documents) as running:
        for alias, capability in OFFERS.items():
            running.until_available(alias, capability)
        yield running
        assert running.end() == 0
        assert running.survivors() == []


def operate(serving: Serving, model: str, output: str, **members: Any) -> httpx.Response:
    body = {"contract_version": 1, "request_id": "c:1", "model": model, "output": output}
    return serving.client.post(f"{serving.url}/v1/model-operations", json=body | members)


def result(answer: httpx.Response, kind: str) -> dict[str, Any]:
    """The result, in an envelope that holds nothing else."""
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body.keys() == {"contract_version", "request_id", "result"}
    assert (body["contract_version"], body["request_id"]) == (1, "c:1")
    assert body["result"]["kind"] == kind
    return dict(body["result"])


def refused(answer: httpx.Response, status: int, code: str) -> str:
    """The message of a refusal that no engine saw."""
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), answer.text
    assert error["outcome"] == answer.headers["x-pumas-outcome"] == "not_admitted"
    return str(error["message"])


def embed(serving: Serving, texts: str | list[str], **options: Any) -> list[list[float]]:
    content = (
        {"kind": "text", "text": texts}
        if isinstance(texts, str)
        else {"kind": "text_batch", "texts": texts}
    )
    answer = operate(
        serving,
        "emb",
        "embeddings_float32",
        input=content,
        **({"options": {"kind": "embeddings", **options}} if options else {}),
    )
    given = result(answer, "embeddings")
    assert given.keys() == {"kind", "vectors"}
    return list(given["vectors"])


def rerank(
    serving: Serving, query: str, documents: list[str], top_n: int | None = None
) -> httpx.Response:
    return operate(
        serving,
        "rr",
        "relevance_scores",
        input={"kind": "rerank", "query": query, "documents": documents},
        options={"kind": "rerank", "top_n": top_n},
    )


def test_embeddings_are_one_vector_for_each_text(serving: Serving) -> None:
    batch = embed(serving, TEXTS)
    assert [len(vector) for vector in batch] == [64] * 3
    assert batch[0] != batch[1]
    for text, vector in zip(TEXTS, batch, strict=True):
        assert embed(serving, text)[0] == pytest.approx(vector, abs=1e-5)


@pytest.mark.parametrize("dimensions", [1, 4, 63, 64])
def test_case_53_56_dimensions_are_leading_values_at_unit_length(
    serving: Serving, dimensions: int
) -> None:
    """The engine ignores `dimensions`: its own answer has the whole width."""
    with engine_client(serving.engine("emb")) as engine:
        asked = {"input": TEXTS[:2], "dimensions": dimensions}
        whole = [e["embedding"] for e in engine.post("/v1/embeddings", json=asked).json()["data"]]
    assert [len(vector) for vector in whole] == [64, 64]
    cut = embed(serving, TEXTS[:2], dimensions=dimensions)
    for short, full in zip(cut, whole, strict=True):
        assert len(short) == dimensions
        assert math.hypot(*short) == pytest.approx(1, abs=1e-6)
        length = math.hypot(*full[:dimensions])
        assert short == pytest.approx([value / length for value in full[:dimensions]], abs=1e-6)


@pytest.mark.parametrize("dimensions", [0, 8193, 65, -1, 4.0, "4"])
def test_case_54_dimensions_out_of_range(serving: Serving, dimensions: Any) -> None:
    answer = operate(
        serving,
        "emb",
        "embeddings_float32",
        input={"kind": "text", "text": "a"},
        options={"kind": "embeddings", "dimensions": dimensions},
    )
    message = refused(answer, 400, "invalid_request")
    assert "dimensions" in message
    if dimensions in (65, 8193):
        assert f"{dimensions}; text_embedding of this model allows 1 to 64" in message


def test_case_86_rerank_orders_then_cuts(serving: Serving) -> None:
    given = result(rerank(serving, "night sky", DOCUMENTS), "relevance_scores")
    assert given.keys() == {"kind", "results", "input_tokens"}
    assert given["input_tokens"] > 0
    results = given["results"]
    scores = [r["relevance_score"] for r in results]
    assert scores == sorted(scores, reverse=True)
    order = [r["index"] for r in results]
    assert sorted(order) == [0, 1, 2]
    assert order.index(0) + 1 == order.index(2)
    by_index = {r["index"]: r["relevance_score"] for r in results}
    assert by_index[0] == by_index[2] != by_index[1]
    for top_n in (1, 2, 3, 50):
        cut = result(rerank(serving, "night sky", DOCUMENTS, top_n), "relevance_scores")
        assert cut == {**given, "results": results[:top_n]}


def test_scores_do_not_depend_on_the_company(serving: Serving) -> None:
    documents = [f"document number {n}" for n in range(40)]
    together = result(rerank(serving, "number 7", documents), "relevance_scores")["results"]
    for entry in together[:5]:
        alone = rerank(serving, "number 7", [documents[entry["index"]]])
        score = result(alone, "relevance_scores")["results"][0]["relevance_score"]
        assert score == pytest.approx(entry["relevance_score"], abs=1e-3)


@pytest.mark.parametrize(
    ("query", "documents", "top_n"),
    [
        (" ", ["a"], 1),
        ("", ["a"], 1),
        ("a", ["a", "\t"], 1),
        ("a", [""], 1),
        ("a", [], 1),
        ("a", ["a"], 0),
    ],
)
def test_case_87_blank_or_empty(
    serving: Serving, query: str, documents: list[str], top_n: int
) -> None:
    refused(rerank(serving, query, documents, top_n), 400, "invalid_request")


@pytest.mark.parametrize(
    ("alias", "path", "asked"),
    [
        ("rr", "/v1/rerank", {"query": "night", "documents": DOCUMENTS, "top_n": 2}),
        ("rr", "/v1/rerank", {"query": "night", "texts": DOCUMENTS}),
        ("emb", "/v1/embeddings", {"input": TEXTS}),
        ("emb", "/v1/embeddings", {"input": "one", "encoding_format": "base64"}),
        ("emb", "/v1/embeddings", {"input": []}),
        ("rr", "/v1/rerank", {"query": "night"}),
    ],
)
def test_case_89_forwarded_routes_give_the_engines_own_bytes(
    serving: Serving, alias: str, path: str, asked: dict[str, Any]
) -> None:
    """Whole answers are equal byte for byte: these routes have no volatile member."""
    body = json.dumps({"model": alias, **asked}, indent=1).encode()
    headers = {"Content-Type": "application/json"}
    with engine_client(serving.engine(alias)) as engine:
        own = engine.post(path, content=body, headers=headers)
    ours = serving.client.post(serving.url + path, content=body, headers=headers)
    assert (ours.status_code, ours.content) == (own.status_code, own.content)
    assert ours.headers["content-type"] == own.headers["content-type"]
    if own.status_code != 200:
        assert ours.headers["x-pumas-outcome"] == "unknown"


def test_forwarded_chat_differs_in_nothing_but_times(serving: Serving) -> None:
    asked = {
        "model": "chat",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 4,
        "temperature": 0,
    }
    with engine_client(serving.engine("chat")) as engine:
        own = engine.post("/v1/chat/completions", json=asked).json()
    ours = serving.client.post(f"{serving.url}/v1/chat/completions", json=asked).json()
    volatile = ("created", "id", "timings", "usage")
    assert [ours.pop(m) and own.pop(m) for m in volatile if m in own]
    assert ours == own


def test_base64_embeddings_are_the_same_numbers(serving: Serving) -> None:
    asked = {"model": "emb", "input": "one", "encoding_format": "base64"}
    entry = serving.client.post(f"{serving.url}/v1/embeddings", json=asked).json()["data"][0]
    packed = base64.b64decode(entry["embedding"])
    assert list(struct.unpack("<64f", packed)) == pytest.approx(embed(serving, "one")[0], abs=1e-6)


def test_case_90_decisions(serving: Serving) -> None:
    answer = operate(
        serving,
        "dec",
        "decisions",
        input={"kind": "decision", "state": {"said": "good day"}, "questions": QUESTIONS},
    )
    given = result(answer, "decisions")
    assert given.keys() == {"kind", "answers", "input_tokens"}
    assert given["input_tokens"] > 0
    answers = given["answers"]
    assert list(answers) == list(QUESTIONS)
    choice, score, noul = (answers[name] for name in QUESTIONS)
    assert choice.keys() == {"type", "choice", "probabilities", "confidence"}
    assert choice["type"] == "choice"
    assert list(choice["probabilities"]) == ["zest", "calm", "anger"]
    assert sum(choice["probabilities"].values()) == pytest.approx(1, abs=1e-4)
    likeliest = max(choice["probabilities"], key=choice["probabilities"].__getitem__)
    assert choice["choice"] == likeliest
    assert 0 <= choice["confidence"] <= 1
    assert score.keys() == {"type", "score", "legend", "probabilities", "confidence"}
    assert score["legend"] == {"0": "short", "1": "long"}
    assert list(score["probabilities"]) == ["0", "1"]
    weighted = sum(int(level) * p for level, p in score["probabilities"].items())
    assert score["score"] == pytest.approx(weighted, abs=1e-4)
    assert noul.keys() == {"type", "noul"}
    assert 0 <= noul["noul"] <= 1


@pytest.mark.parametrize(
    "state", ["words", "", None, [], {}, [None], ["a", 1], 0, 1.5, False, {"a": [None]}]
)
def test_a_state_is_any_json_value(serving: Serving, state: Any) -> None:
    assert decide(serving, state).keys() == {"p"}


def test_a_state_of_null_says_what_null_says_inside_a_state(serving: Serving) -> None:
    """To the engine alone it would be a missing state, a fault of the caller's."""
    assert decide(serving, None) == decide(serving, [None]) != decide(serving, "null")


def decide(serving: Serving, state: Any) -> dict[str, Any]:
    answer = operate(
        serving,
        "dec",
        "decisions",
        input={"kind": "decision", "state": state, "questions": {"p": QUESTIONS["polite"]}},
        options={"kind": "decision"},
    )
    return dict(result(answer, "decisions")["answers"])


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("decisions", {"kind": "decision", "state": "a", "questions": QUESTIONS}),
        ("relevance_scores", {"kind": "rerank", "query": "a", "documents": ["b"]}),
        ("embeddings_float32", {"kind": "text_batch", "texts": ["a"]}),
        (
            "embeddings_float32",
            {"kind": "content_batch", "items": [{"parts": [{"kind": "text", "text": "a"}]}]},
        ),
    ],
)
def test_case_94_what_a_text_model_does_not_do(
    serving: Serving, output: str, content: dict[str, Any]
) -> None:
    message = refused(operate(serving, "chat", output, input=content), 422, "unsupported_modality")
    assert "chat_generation takes messages_text" in message
    assert "text_generation takes text" in message


@pytest.mark.parametrize("alias", ["emb", "rr", "dec"])
def test_a_named_capability_that_the_model_lacks(serving: Serving, alias: str) -> None:
    message = refused(serving.operate(model=alias), 503, "capability_unavailable")
    assert "text_generation: model_task_mismatch" in message


def test_discovery_states_the_runtimes_own_limits(serving: Serving) -> None:
    rows = serving.rows()
    limits = {}
    for alias, offered in OFFERS.items():
        descriptors = {c["capability"]: c for c in rows[alias]["capabilities"]}
        descriptor = descriptors[offered]
        assert descriptor["availability"] == {"state": "available"}
        assert descriptor["input_modalities"] == ["text"]
        assert rows[alias]["modalities"]["output"] == descriptor["output_modalities"]
        limits[alias] = {b["option"]: b["maximum"] for b in descriptor["option_bounds"]}
    assert limits == {
        "chat": {"max_tokens": 2048, "temperature": 2, "top_p": 1},
        "emb": {"dimensions": 64},
        "rr": {},
        "dec": {},
    }
    assert [rows[alias]["context_tokens"] for alias in OFFERS] == [2048, 512, 512, 1024]
    one = serving.client.get(f"{serving.url}/v1/capabilities", params={"model": "emb"}).json()
    assert one["capabilities"] == rows["emb"]["capabilities"]
