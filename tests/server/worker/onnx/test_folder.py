"""Which files make a model, what they say, and one bad folder for each refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import numpy_helper

from pumas_crds.engine_mode import ModeChoice, engine_mode
from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import EngineMode, Reason, Task
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.folder import candidates, locate
from support.spoilt_onnx import change, facts, refusal, rewrite
from support.tiny_onnx import POSITIONS, SPACE, WIDTH, TinyOnnx

SPLIT = "onnx/text_model.onnx"


def bytes_of(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("folder", "name", "pooling", "mode"),
    [
        ("mean", "onnx/model.onnx", "mean", EngineMode.EMBED),
        ("cls", "model.onnx", "cls", EngineMode.EMBED),
        ("rerank", "model.onnx", "", EngineMode.RERANK),
        ("clip", "model.onnx", "", EngineMode.EMBED),
        ("split", SPLIT, "", EngineMode.EMBED),
    ],
)
def test_facts(folder: str, name: str, pooling: str, mode: EngineMode, tiny_onnx: TinyOnnx) -> None:
    root = tiny_onnx.root / folder
    shared = folder in ("clip", "split")
    found = facts(root, name)
    constants = found.parameters - sum(v.size for v in tiny_onnx.weights[folder].values())
    # Of the normalisation after the pooling the weights are beside the graph.
    assert abs(constants) < 2 * WIDTH + 1
    assert found == FileFacts(
        architecture="tiny_clip" if shared else "tiny",
        size_bytes=bytes_of(root),
        quantisation="FLOAT",
        parameters=found.parameters,
        context_tokens=POSITIONS,
        embedding_width=SPACE if shared else WIDTH,
        tokenizer="WordPiece",
        causal=False,
        pooling=pooling,
        ranking_head=folder == "rerank",
        input_modalities=("text", "image") if shared else ("text",),
    )
    choice = engine_mode(None, found)
    assert isinstance(choice, ModeChoice)
    assert choice.mode is mode
    task = Task.TEXT_RANKING if folder == "rerank" else Task.FEATURE_EXTRACTION
    assert isinstance(engine_mode(task, found), ModeChoice)


def test_either_half_names_both(tiny_onnx: TinyOnnx) -> None:
    root = tiny_onnx.root / "split"
    assert facts(root, "onnx/vision_model.onnx") == facts(root, SPLIT)


def test_where_a_model_is(tiny_onnx: TinyOnnx, tmp_path: Path) -> None:
    for folder, name in (("mean", "onnx/model.onnx"), ("cls", "model.onnx"), ("split", SPLIT)):
        root = tiny_onnx.root / folder
        assert locate(root) == (root, name)
        assert locate(root / name) == (root, name)
    with pytest.raises(HeaderFault, match=r"the model's folder has none of model\.onnx, onnx/"):
        locate(tmp_path)
    with pytest.raises(HeaderFault, match=r"the model's file config\.json is not there"):
        locate(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("path", "roots"),
    [
        ("model.onnx", (("", "model.onnx"),)),
        (
            "onnx/model_quantized.onnx",
            (("onnx", "model_quantized.onnx"), ("", "onnx/model_quantized.onnx")),
        ),
        ("a/b/model.onnx", (("a/b", "model.onnx"), ("a", "b/model.onnx"))),
    ],
)
def test_candidates(path: str, roots: tuple[tuple[str, str], ...]) -> None:
    assert candidates(path) == roots


@pytest.mark.parametrize(
    ("folder", "name", "missing"),
    [
        ("mean", "onnx/model.onnx", "config.json"),
        ("mean", "onnx/model.onnx", "tokenizer.json"),
        ("mean", "onnx/model.onnx", "onnx/model.onnx"),
        ("mean", "onnx/model.onnx", "1_Pooling/config.json"),
        ("cls", "model.onnx", "2_LayerNorm/model.safetensors"),
        ("clip", "model.onnx", "preprocessor_config.json"),
        ("split", SPLIT, "onnx/vision_model.onnx"),
    ],
)
def test_a_file_that_is_missing_is_named(
    folder: str, name: str, missing: str, copy: Callable[[str], Path]
) -> None:
    root = copy(folder)
    (root / missing).unlink()
    reason, message = refusal(root, name)
    assert reason is Reason.NOT_A_MODEL
    shown = missing if missing.count("/") == 0 or missing in message else Path(missing).name
    assert message == f"the model's file {shown} is not there"


def test_files_that_are_none(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    assert "whose name ends in .onnx" in refusal(root, "config.json")[1]
    assert "whose name ends in .onnx" in refusal(root, "../mean/onnx/model.onnx")[1]
    (root / "config.json").write_text("[]")
    assert refusal(root, "onnx/model.onnx")[1] == "the model's config.json is no JSON object"
    (root / "config.json").write_text("[" * 100_000)
    assert refusal(root, "onnx/model.onnx")[1] == "the model's config.json is no JSON"
    (root / "config.json").write_bytes(b" " * ((4 << 20) + 1))
    assert (
        "config.json has 4194305 bytes; the limit is 4194304" in refusal(root, "onnx/model.onnx")[1]
    )
    (root / "config.json").unlink()
    (root / "config.json").mkdir()
    assert "config.json is not a regular file" in refusal(root, "onnx/model.onnx")[1]
    (root / "config.json").rmdir()
    os.mkfifo(root / "config.json")
    assert "config.json is not a regular file" in refusal(root, "onnx/model.onnx")[1]


def test_a_tokenizer_that_is_too_large(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    with (root / "tokenizer.json").open("r+b") as file:
        file.truncate((64 << 20) + 1)
    assert "tokenizer.json has 67108865 bytes" in refusal(root, "onnx/model.onnx")[1]


def test_weights_that_are_cut_short(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    weights = root / "onnx/model.onnx"
    weights.write_bytes(weights.read_bytes()[:-100])
    reason, message = refusal(root, "onnx/model.onnx")
    assert reason is Reason.TRUNCATED
    assert message.startswith("model.onnx: the file ends after")


def test_weights_in_a_further_file(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    path = root / "onnx/model.onnx"
    whole = facts(root, "onnx/model.onnx")
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    further = root / "onnx/model.onnx_data"
    found = facts(root, "onnx/model.onnx")
    assert found.parameters == whole.parameters
    assert found.size_bytes == bytes_of(root)
    further.write_bytes(further.read_bytes()[:-1])
    reason, message = refusal(root, "onnx/model.onnx")
    assert reason is Reason.TRUNCATED
    assert message.startswith("the model's model.onnx_data has ")
    further.unlink()
    assert refusal(root, "onnx/model.onnx")[1] == "the model's file model.onnx_data is not there"


@pytest.mark.parametrize(
    ("config", "limit", "tokens"),
    [
        ({}, 512, POSITIONS),
        ({"max_position_embeddings": 514, "pad_token_id": 1}, 512, 512),
        ({"max_position_embeddings": 514, "pad_token_id": 1}, 128, 514),
        ({"max_position_embeddings": 512, "pad_token_id": 0}, 10**30, 512),
        ({"max_position_embeddings": None, "n_positions": 256}, None, 256),
        ({"max_position_embeddings": None}, 77, 77),
        ({"max_position_embeddings": None}, None, 0),
        ({"max_position_embeddings": -5}, None, 0),
        ({"max_position_embeddings": True}, None, 0),
    ],
)
def test_tokens_of_one_input(
    config: dict[str, Any], limit: int | None, tokens: int, copy: Callable[[str], Path]
) -> None:
    root = copy("mean")
    rewrite(root / "config.json", **config)
    if limit is not None:
        (root / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
    assert facts(root, "onnx/model.onnx").context_tokens == tokens


def test_quantised_weights(copy: Callable[[str], Path]) -> None:
    root = copy("mean")

    def quantise(model: Any) -> None:
        import numpy as np

        model.graph.initializer.append(numpy_helper.from_array(np.zeros(9999, np.int8), "q"))

    change(root / "onnx/model.onnx", quantise)
    assert facts(root, "onnx/model.onnx").quantisation == "INT8"
