"""`runtime: external` through `pumas serve`: stock llama.cpp servers, and one as Ollama answers.

One server of ours stands before all of them. What a stock engine does is compared with what it
answers when it is asked directly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.engines import PlainEngine, plain_engine
from support.ollama_like import MODEL, VECTORS, WORDS, OllamaLike, ollama_like
from support.serve import Serving, manifest, serve
from support.worker import until

#: One server for the module, hence one test process.
pytestmark = pytest.mark.xdist_group("external")

#: File, flags, recorded task, what it then offers.
STOCK: dict[str, tuple[str, str, str | None, set[str]]] = {
    "chat": (
        "tiny-chat",
        "-c 2048 -np 2 -a inner-name",
        None,
        {"chat_generation", "text_generation"},
    ),
    "emb": ("tiny-embed", "--embeddings", "feature-extraction", {"text_embedding"}),
    "rr": ("tiny-rerank", "--rerank", "text-ranking", {"rerank"}),
    "dec": ("tiny-decision", "", None, {"decision"}),
}
OLLAMA: dict[str, tuple[str, str, set[str]]] = {
    "ollama": ("tiny", "text-generation", {"chat_generation", "text_generation"}),
    "ollama-emb": (MODEL, "feature-extraction", {"text_embedding"}),
    "ollama-rr": ("tiny", "text-ranking", {"rerank"}),
}


@dataclass
class Neighbours:
    """What runs before the tests."""

    serving: Serving
    engines: dict[str, PlainEngine]
    ollama: OllamaLike

    def operate(self, model: str, output: str, content: Any, **members: Any) -> httpx.Response:
        body = {"contract_version": 1, "request_id": "e:1", "model": model, "output": output}
        return self.serving.client.post(
            f"{self.serving.url}/v1/model-operations", json={**body, "input": content, **members}
        )

    def post(self, path: str, content: bytes) -> httpx.Response:
        headers = {"Content-Type": "application/json", "Authorization": "Bearer of-the-caller"}
        return self.serving.client.post(self.serving.url + path, content=content, headers=headers)


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Neighbours]:
    with ExitStack() as running:
        engines = {
            alias: running.enter_context(plain_engine(tiny_models / f"{file}.gguf", *flags.split()))
            for alias, (file, flags, _, _) in STOCK.items()
        }
        ollama = running.enter_context(ollama_like())
        documents = [
            external(alias, engines[alias].url, task=task)
            for alias, (_, _, task, _) in STOCK.items()
        ]
        documents += [
            external(alias, f"{ollama.url}/v1/", task=task, model=model)
            for alias, (model, task, _) in OLLAMA.items()
        ]
        documents.append(external("absent", ollama.url, task="text-generation", model="absent:7b"))
        serving = running.enter_context(serve(tmp_path_factory.mktemp("external"), *documents))
        for alias, offered in expected().items():
            serving.until_available(alias, min(offered))
        yield Neighbours(serving, engines, ollama)
        assert serving.end() == 0


def external(alias: str, url: str, task: str | None, model: str | None = None) -> dict[str, Any]:
    endpoint = {"url": url, **({"model": model} if model else {})}
    recorded = {"task": task} if task else {}
    return manifest(alias, runtime="external", endpoint=endpoint, **recorded)


def expected() -> dict[str, set[str]]:
    return {alias: row[-1] for alias, row in (STOCK | OLLAMA).items()}


def result(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["result"])


def test_what_each_server_offers(neighbours: Neighbours) -> None:
    rows = neighbours.serving.rows()
    for alias, offered in expected().items():
        available = {
            c["capability"]
            for c in rows[alias]["capabilities"]
            if c["availability"]["state"] == "available"
        }
        assert available == offered, alias
        assert rows[alias]["provider"] == "openai_compatible"
        assert rows[alias]["load_state"] == "loaded"
    modalities = {alias: row["modalities"] for alias, row in rows.items() if alias in expected()}
    assert {m["input"][0] for m in modalities.values()} == {"text"}
    outputs = {alias: m["output"] for alias, m in modalities.items()}
    assert outputs == {
        "chat": ["text"],
        "emb": ["vector"],
        "rr": ["json"],
        "dec": ["json"],
        "ollama": ["text"],
        "ollama-emb": ["vector"],
        "ollama-rr": ["json"],
    }


def test_limits_are_what_the_server_tells(neighbours: Neighbours) -> None:
    """Context of one slot and width, of a llama.cpp server; nothing is known of the other."""
    rows = neighbours.serving.rows()
    assert rows["chat"]["context_tokens"] == 1024
    assert rows["dec"]["context_tokens"] == 1024
    assert "context_tokens" not in rows["ollama"]
    bounds = {
        alias: {
            b["option"]: b["maximum"]
            for c in rows[alias]["capabilities"]
            if c["capability"] == min(expected()[alias])
            for b in c["option_bounds"]
        }
        for alias in ("chat", "emb", "ollama", "ollama-emb")
    }
    assert bounds["chat"]["max_tokens"] == 1024
    assert bounds["emb"] == {"dimensions": 64}
    assert bounds["ollama"]["max_tokens"] == 2**32 - 1
    assert bounds["ollama-emb"] == {}


def test_a_server_that_does_not_list_the_model(neighbours: Neighbours) -> None:
    row = neighbours.serving.rows()["absent"]
    assert row["load_state"] == "loading"
    assert row["error"]["reason"] == "NoEndpoint"
    answer = neighbours.serving.operate(model="absent")
    assert (answer.status_code, answer.json()["error"]["outcome"]) == (503, "not_admitted")
    asked = b'{"model": "absent", "messages": []}'
    assert neighbours.post("/v1/chat/completions", asked).status_code == 503


def test_a_stock_engine_generates(neighbours: Neighbours) -> None:
    options = {"kind": "text_generation", "max_tokens": 16, "temperature": 0}
    engine = neighbours.engines["chat"].client
    text = {"kind": "text", "text": "hello"}
    given = neighbours.operate("chat", "text", text, capability="text_generation", options=options)
    choices = own_stream(engine, "/v1/completions", prompt="hello")
    assert result(given)["text"] == "".join(choice["text"] for choice in choices)
    messages = [{"role": "user", "content": "hi"}]
    given = neighbours.operate(
        "chat", "text", {"kind": "messages", "messages": messages}, options=options
    )
    choices = own_stream(engine, "/v1/chat/completions", messages=messages)
    words = [choice["delta"].get("content") or "" for choice in choices]
    assert result(given)["text"] == "".join(words)


def own_stream(engine: httpx.Client, path: str, **members: Any) -> list[dict[str, Any]]:
    """The choices of the engine's own stream.

    Not its finite answer: of bytes that are no text, random models make some, it holds back the
    last in a stream and not otherwise.
    """
    asked = {"max_tokens": 16, "temperature": 0, "stream": True, **members}
    events = engine.post(path, json=asked).text.split("\n\n")
    data = [json.loads(e.removeprefix("data: ")) for e in events if e.startswith("data: {")]
    return [event["choices"][0] for event in data if event["choices"]]


def test_a_stock_engine_embeds(neighbours: Neighbours) -> None:
    batch = {"kind": "text_batch", "texts": ["one", "two"]}
    vectors = result(neighbours.operate("emb", "embeddings_float32", batch))["vectors"]
    own = neighbours.engines["emb"].client.post("/v1/embeddings", json={"input": batch["texts"]})
    assert vectors == [entry["embedding"] for entry in own.json()["data"]]
    options = {"kind": "embeddings", "dimensions": 65}
    over = neighbours.operate("emb", "embeddings_float32", batch, options=options)
    assert (over.status_code, over.json()["error"]["outcome"]) == (400, "not_admitted")


def test_a_stock_engine_ranks(neighbours: Neighbours) -> None:
    content = {"kind": "rerank", "query": "sky", "documents": ["moon", "sun and stars", "sea"]}
    given = result(neighbours.operate("rr", "relevance_scores", content))
    asked = {"query": content["query"], "documents": content["documents"]}
    own = neighbours.engines["rr"].client.post("/v1/rerank", json=asked).json()
    scores = {r["index"]: r["relevance_score"] for r in own["results"]}
    assert {r["index"]: r["relevance_score"] for r in given["results"]} == scores
    assert given["input_tokens"] == own["usage"]["prompt_tokens"]


def test_a_stock_engine_decides_and_nothing_else(neighbours: Neighbours) -> None:
    question = {"type": "choice", "instructions": "which?", "criteria": {"a": None, "b": "best"}}
    content = {"kind": "decision", "state": {"said": "b"}, "questions": {"q": question}}
    given = result(neighbours.operate("dec", "decisions", content))
    asked = {"state": {"said": "b"}, "questions": {"q": question}}
    own = neighbours.engines["dec"].client.post("/v1/systemone", json=asked).json()
    assert given["answers"] == own["answers"]
    text = neighbours.operate("dec", "text", {"kind": "text", "text": "a"})
    assert (text.status_code, text.json()["error"]["code"]) == (422, "unsupported_modality")
    chat = b'{"model": "dec", "messages": [{"role": "user", "content": "a"}]}'
    openai = neighbours.post("/v1/chat/completions", chat)
    assert openai.json()["error"]["code"] == "endpoint_unavailable"


def test_a_stock_engines_refusal(neighbours: Neighbours) -> None:
    """Told with the engine's reason; the same in both dialects."""
    text = {"kind": "text", "text": "a " * 600}
    answer = neighbours.operate("emb", "embeddings_float32", text)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["outcome"]) == (
        502,
        "provider_failure",
        "unknown",
    )
    assert "tokens" in error["message"]
    asked = json.dumps({"model": "emb", "input": "a " * 600}).encode()
    openai = neighbours.post("/v1/embeddings", asked)
    own = neighbours.engines["emb"].client.post("/v1/embeddings", content=asked)
    assert (openai.status_code, openai.content) == (own.status_code, own.content)
    assert openai.headers["x-pumas-outcome"] == "unknown"
    assert openai.headers["x-should-retry"] == "false"


def test_an_engine_that_goes_and_comes_back(tmp_path: Path, tiny_models: Path) -> None:
    """While it is away nothing is admitted; when it is back, it is found."""
    model = tiny_models / "tiny-chat.gguf"
    with plain_engine(model) as engine:
        document = external("other", engine.url, None)
        with serve(tmp_path, document) as serving:
            serving.until_available("other", "text_generation")
            assert serving.operate(model="other").status_code == 200
            engine.end()
            refused = serving.operate(model="other")
            assert (refused.status_code, refused.headers["x-pumas-outcome"]) == (
                503,
                "not_admitted",
            )
            row = serving.until_row("other", load_state="loading")
            assert row["error"]["reason"] == "NoEndpoint"
            port = engine.client.base_url.port
            with plain_engine(model, port=port):
                serving.until_available("other", "text_generation")
                assert serving.operate(model="other").status_code == 200
            assert serving.end() == 0


def test_ollama_chats(neighbours: Neighbours) -> None:
    """Thoughts are not text, and what was asked for carries the name that the manifest gives."""
    conversation = {"kind": "messages", "messages": [{"role": "user", "content": "hi"}]}
    given = result(neighbours.operate("ollama", "text", conversation))
    assert given == {"kind": "text", "text": "".join(WORDS), "finish_reason": "stop"}
    path, body = neighbours.ollama.posts[-1]
    assert path == "/v1/chat/completions"
    asked = json.loads(body)
    assert (asked["model"], asked["stream"], asked["n"]) == ("tiny", True, 1)
    assert b"e:1" not in body
    streamed = neighbours.operate("ollama", "text", conversation, stream=True)
    records = [
        json.loads(line.removeprefix("data: "))
        for line in streamed.text.split("\n")
        if line.startswith("data: ")
    ]
    assert [r["kind"] for r in records] == ["started", *["delta"] * len(WORDS), "completed"]
    assert [r["text"] for r in records if r["kind"] == "delta"] == list(WORDS)


def test_ollama_completes(neighbours: Neighbours) -> None:
    given = result(
        neighbours.operate(
            "ollama", "text", {"kind": "text", "text": "hi"}, capability="text_generation"
        )
    )
    assert given["text"] == "".join(WORDS)
    assert neighbours.ollama.posts[-1][0] == "/v1/completions"


@pytest.mark.parametrize("dimensions", [None, 2, 4])
def test_ollama_embeds(neighbours: Neighbours, dimensions: int | None) -> None:
    given = result(
        neighbours.operate(
            "ollama-emb",
            "embeddings_float32",
            {"kind": "text_batch", "texts": ["one", "two"]},
            options={"kind": "embeddings", "dimensions": dimensions},
        )
    )
    whole = [[0.6, -0.8, 0, 0], [value / 85 for value in VECTORS[1]]]
    wanted = {None: VECTORS, 2: [[0.6, -0.8], [0.6, 0.8]], 4: whole}[dimensions]
    for vector, right in zip(given["vectors"], wanted, strict=True):
        assert vector == pytest.approx(right, abs=1e-4)
    assert json.loads(neighbours.ollama.posts[-1][1])["model"] == MODEL


def test_more_dimensions_than_an_unknown_width(neighbours: Neighbours) -> None:
    """Known only from the answer: then it is the result that does not fit."""
    answer = neighbours.operate(
        "ollama-emb",
        "embeddings_float32",
        {"kind": "text", "text": "one"},
        options={"kind": "embeddings", "dimensions": 5},
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["outcome"]) == (
        502,
        "invalid_provider_result",
        "unknown",
    )


def test_a_route_that_ollama_lacks(neighbours: Neighbours) -> None:
    """Recorded as a reranker, it is taken at its word; the failure is told as what it is."""
    content = {"kind": "rerank", "query": "a", "documents": ["b"]}
    answer = neighbours.operate("ollama-rr", "relevance_scores", content)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["outcome"]) == (
        502,
        "provider_failure",
        "unknown",
    )
    assert "404" in error["message"]
    asked = b'{"model": "ollama-rr", "query": "a", "documents": ["b"]}'
    openai = neighbours.post("/v1/rerank", asked)
    assert (openai.status_code, openai.content) == (404, b"404 page not found")
    assert openai.headers["content-type"] == "text/plain"
    assert openai.headers["x-pumas-outcome"] == "unknown"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"model":', b',"messages":[{"role":"user","content":"hi"}]}'),
        (b'{ "messages" : [ {"role":"user","content":"model"} ] ,\n\t"model"\r\n:  ', b" }\n"),
        (
            b'{"user": "{\\"model\\": \\"ollama\\"}", "model": ',
            b', "messages": [{"model": "ollama"}]}',
        ),
        ('{"x": "\u2028 \U0001f600", "model": '.encode(), b', "n": 1.0, "top_p": 1e0, "seed": -0}'),
        (b'{"mod\\u0065l": ', b', "metadata": {"model": "ollama"}}'),
    ],
)
def test_only_the_models_name_is_replaced(
    neighbours: Neighbours, before: bytes, after: bytes
) -> None:
    for path in ("/v1/chat/completions", "/v1/completions"):
        for spelling in (b'"ollama"', b'"ol\\u006cama"'):
            answer = neighbours.post(path, before + spelling + after)
            assert answer.status_code == 200, answer.text
            assert neighbours.ollama.posts[-1] == (path, before + b'"tiny"' + after)


def test_a_forwarded_stream_with_its_usage(neighbours: Neighbours) -> None:
    """Every byte as it came: thoughts, usage and `[DONE]`."""
    asked = (
        b'{"model": "ollama", "stream": true, "stream_options": {"include_usage": true},'
        b' "messages": [{"role": "user", "content": "hi"}]}'
    )
    ours = neighbours.post("/v1/chat/completions", asked)
    own = httpx.post(
        f"{neighbours.ollama.url}/v1/chat/completions", content=asked.replace(b"ollama", b"tiny")
    )
    assert ours.content == own.content
    assert ours.headers["content-type"] == "text/event-stream"
    assert b'"choices": [], "usage"' in ours.content
    assert ours.content.endswith(b"data: [DONE]\n\n")


def test_asked_by_get_until_a_caller_asks(tmp_path: Path) -> None:
    """Finding out what it is has no effect on it."""
    with ollama_like() as ollama:
        document = external("o", ollama.url, "text-generation", "tiny")
        with serve(tmp_path, document) as serving:
            serving.until_available("o", "chat_generation")
            until(lambda: serving.rows()["o"]["load_state"] == "loaded", "loaded")
            assert ollama.posts == []
            assert serving.end() == 0
