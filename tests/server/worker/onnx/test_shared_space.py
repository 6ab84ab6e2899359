"""Texts and images in one space, against plain numpy: in one graph and in two."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable

import httpx
import numpy as np
import pytest
from PIL import Image

from support.numpy_bert import Array, hidden_states, unit
from support.tiny_onnx import PREPROCESSOR, SIDE, SPACE, TinyOnnx, Weights, build_tokenizer

Client = Callable[[str], httpx.Client]


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


def url(image: Image.Image, form: str = "PNG") -> str:
    stored = io.BytesIO()
    image.save(stored, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(stored.getvalue()).decode()}"


def image_part(image: Image.Image) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url(image)}}


def text_part(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def of_text(weights: Weights, text: str) -> Array:
    tokenizer = build_tokenizer()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = tokenizer.encode(text).ids
    first = hidden_states(weights, ids, [0] * len(ids), layers=1, heads=1)[0]
    return unit(first @ weights["text_projection.weight"].T + weights["text_projection.bias"])


def of_image(weights: Weights, image: Image.Image) -> Array:
    """Of an image whose shorter side has the model's size already: nothing is resized."""
    values = np.asarray(image.convert("RGB"), np.float64)
    top, left = (values.shape[0] - SIDE) // 2, (values.shape[1] - SIDE) // 2
    values = values[top : top + SIDE, left : left + SIDE] / 255
    values = (values - PREPROCESSOR["image_mean"]) / PREPROCESSOR["image_std"]
    flat = values.transpose(2, 0, 1).reshape(-1)
    projected: Array = flat @ weights["visual_projection.weight"].T
    return unit(projected + weights["visual_projection.bias"])


def ask(client: httpx.Client, *inputs: object) -> list[list[float]]:
    answer = client.post("/v1/embeddings", json={"input": list(inputs)})
    assert answer.status_code == 200, answer.text
    return [entry["embedding"] for entry in answer.json()["data"]]


@pytest.mark.parametrize("name", ["clip", "split"])
def test_vectors(name: str, onnx_client: Client, tiny_onnx: TinyOnnx) -> None:
    client, weights = onnx_client(name), tiny_onnx.weights[name]
    wide, tall = picture(15, SIDE), picture(SIDE, 13, seed=1)
    told = ask(
        client,
        "red river",
        {"content": [image_part(wide)]},
        "a longer text",
        {"content": [image_part(tall)]},
        {"content": [text_part("red river")]},
        {"content": [text_part("blue"), image_part(wide), text_part("red")]},
    )
    mixed = of_text(weights, "blue") + of_image(weights, wide) + of_text(weights, "red")
    wanted = [
        of_text(weights, "red river"),
        of_image(weights, wide),
        of_text(weights, "a longer text"),
        of_image(weights, tall),
        of_text(weights, "red river"),
        unit(mixed / 3),
    ]
    for found, vector in zip(told, wanted, strict=True):
        assert found == pytest.approx(vector, abs=1e-5)
    assert len(told[0]) == SPACE
    assert told[4] == told[0]


def test_more_images_than_one_batch(onnx_client: Client, tiny_onnx: TinyOnnx) -> None:
    images = [picture(SIDE, SIDE, seed=n) for n in range(19)]
    told = ask(onnx_client("split"), *({"content": [image_part(one)]} for one in images))
    for found, image in zip(told, images, strict=True):
        assert found == pytest.approx(of_image(tiny_onnx.weights["split"], image), abs=1e-5)


def test_it_says_what_it_takes(onnx_client: Client) -> None:
    model = onnx_client("clip").get("/v1/models").json()["data"][0]
    assert model["architecture"] == {
        "input_modalities": ["text", "image"],
        "output_modalities": ["vector"],
    }
    assert model["meta"]["n_embd"] == SPACE


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("https://example.org/a.png", "input[0].content[0] must be a data: URL"),
        ("data:image/png;base64,????", "input[0].content[0] is not base64-encoded"),
        ("data:image/png;base64,AAAA", "input[0].content[0] is no PNG or JPEG image"),
        (url(picture(4, 4), "GIF"), "input[0].content[0] is no PNG or JPEG image"),
        (url(picture(64, 64))[: 22 + 3000], "input[0].content[0] cannot be decoded"),
        (url(Image.new("L", (65_000, 1000))), "65000 x 1000 pixels; the limit is 50000000"),
        (url(Image.new("L", (6_000_000, 1))), "the limit is 16777216 in all"),
    ],
)
def test_images_that_do_not_fit_are_named(given: str, message: str, onnx_client: Client) -> None:
    parts = [{"type": "image_url", "image_url": {"url": given}}]
    answer = onnx_client("clip").post("/v1/embeddings", json={"input": [{"content": parts}]})
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
