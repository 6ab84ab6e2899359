"""Models that say less than others: loaded in this process and asked through their handlers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.fault import EngineFault
from pumas_server.worker.onnx.loading import load_encoder
from pumas_server.worker.onnx.served import Served
from support.spoilt_onnx import change, rewrite
from support.tiny_onnx import POSITIONS, SPACE, WIDTH, WORDS, Graph, build_tokenizer

NUMBERS = np.random.default_rng(5).standard_normal((len(WORDS), WIDTH)).astype(np.float32)


def load(path: Path, *, rerank: bool = False) -> Served:
    return load_encoder(path, rerank, "cpu", 1)


def ask(served: Served, path: str = "/v1/embeddings", **body: object) -> Any:
    return json.loads(served.handlers[path](body))


def write_model(
    folder: Path, output: str, rank: int, nodes: list[onnx.NodeProto], **config: Any
) -> None:
    """A graph of token numbers in 32 bits and of positions, whose output has no stated width."""
    ports = [
        helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "sequence"])
        for name in ("input_ids", "position_ids")
    ]
    shape = ["batch", "sequence", "width"][:: 2 if rank == 2 else 1]
    graph = helper.make_graph(
        nodes,
        "bare",
        ports,
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(NUMBERS, "numbers")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps({"model_type": "bare", **config}))
    build_tokenizer().save(str(folder / "tokenizer.json"))


def node(operator: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def tokens(text: str) -> list[int]:
    tokenizer = build_tokenizer()
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids: list[int] = tokenizer.encode(text).ids
    return ids


def test_a_graph_that_pools_itself(tmp_path: Path) -> None:
    nodes = [
        node("Gather", "numbers input_ids", "words"),
        node("Gather", "numbers position_ids", "places"),
        node("Add", "words places", "both"),
        node("ReduceMean", "both", "sentence_embedding", axes=[1], keepdims=0),
    ]
    write_model(tmp_path, "sentence_embedding", 2, nodes)
    served = load(tmp_path)
    assert (served.embedding_width, served.context_tokens) == (WIDTH, 0)
    assert [limit.option for limit in served.limits] == [
        "input_count",
        "input_characters",
        "dimensions",
    ]
    # Without a mask texts of different lengths are not computed together: nothing is padding.
    answer = ask(served, input=["red", "a longer blue river", "blue"])
    for text, entry in zip(["red", "a longer blue river", "blue"], answer["data"], strict=True):
        ids = tokens(text)
        wanted = (NUMBERS[ids] + NUMBERS[: len(ids)]).mean(axis=0)
        assert entry["embedding"] == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-5)


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("lasttoken", lambda rows: rows[-1]), (None, lambda rows: rows.mean(axis=0))],
)
def test_other_poolings_and_outputs_without_a_usual_name(
    word: str | None, wanted: Callable[[Any], Any], tmp_path: Path
) -> None:
    nodes = [
        node("Gather", "numbers input_ids", "words"),
        node("Gather", "numbers position_ids", "places"),
        node("Add", "words places", "42"),
    ]
    write_model(tmp_path, "42", 3, nodes, hidden_size=WIDTH, n_positions=9)
    if word is not None:
        (tmp_path / "1_Pooling").mkdir()
        (tmp_path / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": word}))
    served = load(tmp_path / "model.onnx")
    assert (served.embedding_width, served.context_tokens) == (WIDTH, 9)
    (entry,) = ask(served, input="red river")["data"]
    ids = tokens("red river")
    vector = wanted(NUMBERS[ids] + NUMBERS[: len(ids)])
    assert entry["embedding"] == pytest.approx(vector / np.linalg.norm(vector), abs=1e-5)


def test_two_sides_of_different_widths(copy: Callable[[str], Path]) -> None:
    root = copy("split")
    graph = Graph(seed=4)
    flat = graph.add("Flatten", "pixel_values", axis=1)
    graph.name(graph.linear("visual_projection", flat, SPACE + 1, 192), "image_embeds")
    model = graph.model(["pixel_values"], {"image_embeds": ["batch", SPACE + 1]})
    onnx.save(model, root / "onnx/vision_model.onnx")
    with pytest.raises(HeaderFault, match="texts have vectors of 12 values, its images of 13"):
        load(root)


def test_a_kind_for_another_mode(copy: Callable[[str], Path]) -> None:
    with pytest.raises(HeaderFault, match="of the kind reranker, which does not embed"):
        load(copy("rerank"))
    with pytest.raises(HeaderFault, match="of the kind shared space, which does not rerank"):
        load(copy("clip"), rerank=True)


def test_what_only_loading_shows(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    change(root / "onnx/model.onnx", _unknown_operator)
    with pytest.raises(EngineFault, match=r"^model\.onnx: the engine has no operator Unheard$"):
        load(root)
    root = copy("cls")
    (root / "tokenizer.json").write_text("{}")
    with pytest.raises(HeaderFault, match=r"tokenizer\.json is no tokenizer"):
        load(root)
    rewrite(root / "config.json", hidden_size=7)
    (root / "2_LayerNorm/model.safetensors").write_bytes(b"")
    with pytest.raises(HeaderFault, match="the layer norm's weights are no safetensors file"):
        load(root)


def _unknown_operator(model: Any) -> None:
    model.graph.node.append(helper.make_node("Unheard", ["input_ids"], ["unheard"]))


def test_prompts_of_a_config_are_never_put_before_a_text(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    plain: Mapping[str, Any] = ask(load(root), input="red", model="m")
    prompts = {
        "prompts": {"query": "query: ", "document": "text: "},
        "default_prompt_name": "query",
    }
    (root / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    assert ask(load(root), input="red", model="m") == plain
    assert POSITIONS > plain["usage"]["prompt_tokens"] == len(tokens("red"))
