"""Scores over HTTP are those that plain numpy computes from the same weights."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from support.numpy_bert import hidden_states
from support.tiny_onnx import POSITIONS, TinyOnnx, Weights, build_tokenizer

Client = Callable[[str], httpx.Client]

DOCUMENTS = ["red river", "", "blue", "a text of many pieces", "blue"]


def score(weights: Weights, query: str, document: str) -> tuple[float, int]:
    tokenizer = build_tokenizer()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoding = tokenizer.encode(query, document)
    first = hidden_states(weights, encoding.ids, encoding.type_ids, layers=1, heads=1)[0]
    value = first @ weights["classifier.weight"][0] + weights["classifier.bias"][0]
    return float(value), len(encoding.ids)


@pytest.mark.parametrize("best", [None, 2, 99])
def test_scores(best: int | None, onnx_client: Client, tiny_onnx: TinyOnnx) -> None:
    question = {"model": "m", "query": "which river", "documents": DOCUMENTS, "top_n": best}
    answer = onnx_client("rerank").post("/v1/rerank", json=question).json()
    told = [score(tiny_onnx.weights["rerank"], "which river", text) for text in DOCUMENTS]
    order = sorted(range(len(DOCUMENTS)), key=lambda n: (-round(told[n][0], 5), n))[:best]
    assert [result["index"] for result in answer["results"]] == order
    for result in answer["results"]:
        assert result["relevance_score"] == pytest.approx(told[result["index"]][0], abs=1e-5)
    tokens = sum(count for _, count in told)
    assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert (answer["model"], answer["object"]) == ("m", "list")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"documents": ["a"]}, '"query" must be provided'),
        ({"query": "a"}, '"documents" must be a non-empty string array'),
        ({"query": "a", "documents": []}, '"documents" must be a non-empty string array'),
        ({"query": "a", "documents": ["a", {"text": "b"}]}, '"documents" must be a non-empty'),
        ({"query": "a", "documents": ["a"], "top_n": 0}, '"top_n" must be a number of at least 1'),
        ({"query": "a", "documents": ["a"] * 129}, "input_count is 129; the limit is 128"),
        (
            {"query": "a" * 65_000, "documents": ["b" * 537]},
            "input_characters is 65537; the limit is 65536",
        ),
        (
            {"query": "a " * 30, "documents": ["a", "a " * 30]},
            f"documents[1] has input_tokens 63; the limit is {POSITIONS}",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    body: dict[str, object], message: str, onnx_client: Client
) -> None:
    answer = onnx_client("rerank").post("/v1/rerank", json=body)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_it_does_nothing_else(onnx_client: Client) -> None:
    client = onnx_client("rerank")
    answer = client.post("/v1/embeddings", json={"input": "a"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (501, "not_supported_error")
    limits = [limit["option"] for limit in client.get("/props").json()["limits"]]
    assert limits == ["input_count", "input_characters", "input_tokens"]
