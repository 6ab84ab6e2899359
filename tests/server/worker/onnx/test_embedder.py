"""Embeddings over HTTP are those that plain numpy computes from the same weights."""

from __future__ import annotations

import base64
from collections.abc import Callable

import httpx
import numpy as np
import pytest

from support.numpy_bert import Array, hidden_states, unit
from support.tiny_onnx import POSITIONS, WIDTH, TinyOnnx, Weights, build_tokenizer

Client = Callable[[str], httpx.Client]

TEXTS = ["red river", "", "blue", "a much longer text of many little pieces", "red river"]


def states(weights: Weights, text: str) -> Array:
    tokenizer = build_tokenizer()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoding = tokenizer.encode(text)
    return hidden_states(weights, encoding.ids, encoding.type_ids, layers=1, heads=1)


def pooled(tiny: TinyOnnx, name: str, text: str) -> Array:
    weights = tiny.weights[name]
    state = states(weights, text)
    if name == "mean":
        vector: Array = state.mean(axis=0)
        return vector
    first = state[0]
    deviation = np.sqrt(first.var() + 1e-5)
    normed: Array = (first - first.mean()) / deviation * weights["norm.weight"]
    return normed + weights["norm.bias"]


def ask(client: httpx.Client, **body: object) -> dict[str, object]:
    answer = client.post("/v1/embeddings", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, object] = answer.json()
    return told


def vectors(answer: dict[str, object]) -> list[list[float]]:
    data = answer["data"]
    assert isinstance(data, list)
    assert [entry["index"] for entry in data] == list(range(len(data)))
    return [entry["embedding"] for entry in data]


@pytest.mark.parametrize("name", ["mean", "cls"])
def test_vectors(name: str, onnx_client: Client, tiny_onnx: TinyOnnx) -> None:
    answer = ask(onnx_client(name), input=TEXTS, model="asked")
    assert (answer["object"], answer["model"]) == ("list", "asked")
    for text, vector in zip(TEXTS, vectors(answer), strict=True):
        assert vector == pytest.approx(unit(pooled(tiny_onnx, name, text)), abs=2e-6)
    tokenizer = build_tokenizer()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    count = sum(len(tokenizer.encode(text).ids) for text in TEXTS)
    assert answer["usage"] == {"prompt_tokens": count, "total_tokens": count}


def test_fewer_dimensions_are_normalised_again(onnx_client: Client, tiny_onnx: TinyOnnx) -> None:
    (vector,) = vectors(ask(onnx_client("mean"), input="red river", dimensions=5))
    assert vector == pytest.approx(unit(pooled(tiny_onnx, "mean", "red river")[:5]), abs=2e-6)


def test_base64_and_content_are_the_plain_answer(onnx_client: Client) -> None:
    client = onnx_client("mean")
    answer = ask(client, input="red river", encoding_format="float")
    assert answer["model"] == "team/tiny"
    (plain,) = vectors(answer)
    data = ask(client, input="red river", encoding_format="base64")["data"]
    assert isinstance(data, list)
    stored = np.frombuffer(base64.b64decode(data[0]["embedding"]), "<f4")
    assert stored.tolist() == pytest.approx(plain, rel=1e-6)
    parts = [{"type": "text", "text": "red "}, {"type": "text", "text": "river"}]
    for item in ({"content": "red river"}, {"content": parts}, {"content": parts, "role": "user"}):
        assert vectors(ask(client, input=[item], ignored=1)) == [plain]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, '"input" must be provided'),
        ({"input": []}, '"input" must not be empty'),
        ({"input": 7}, 'input[0] must be a string or an object with a "content" of parts'),
        ({"input": ["a", None]}, "input[1] must be a string"),
        ({"input": {"content": []}}, "input[0] must be a string or an object"),
        ({"input": {"content": [{"type": "text"}]}}, "input[0].content[0] must be a text or"),
        ({"input": ["a"] * 129}, "input_count is 129; the limit is 128"),
        ({"input": ["a" * 65_537]}, "input_characters is 65537; the limit is 65536"),
        ({"input": ["a", "a " * 60]}, f"input[1] has input_tokens 62; the limit is {POSITIONS}"),
        ({"input": "a", "dimensions": 17}, f"dimensions is 17; it must be 1 to {WIDTH}"),
        ({"input": "a", "dimensions": 0}, f"dimensions is 0; it must be 1 to {WIDTH}"),
        ({"input": "a", "dimensions": True}, f"it must be 1 to {WIDTH}"),
        ({"input": "a", "encoding_format": "int8"}, '"encoding_format" must be'),
        (
            {"input": [{"content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]},
            "input[0].content[0] is an image; the model takes text",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    body: dict[str, object], message: str, onnx_client: Client
) -> None:
    answer = onnx_client("mean").post("/v1/embeddings", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == (400, "invalid_request_error")
    assert message in error["message"]


def test_the_limits_are_told_and_are_those_that_hold(onnx_client: Client) -> None:
    client = onnx_client("mean")
    limits = {limit["option"]: limit for limit in client.get("/props").json()["limits"]}
    told = {name: (limit["minimum"], limit["maximum"]) for name, limit in limits.items()}
    assert told == {
        "input_count": (1, 128),
        "input_characters": (0, 65_536),
        "dimensions": (1, WIDTH),
        "input_tokens": (1, POSITIONS),
    }
    fits = ["a " * (POSITIONS - 2), *["a"] * 127]
    assert len(vectors(ask(client, input=fits, dimensions=WIDTH))) == 128
