"""ONNX models of some kilobytes with random weights, in folders as hubs publish them.

Real graphs, a real tokenizer, the configs that go with them; the same bytes in every session.
`weights` are the numbers of a model by their names on the hub, so that a test can compute with
them what the engine should answer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WIDTH = 16
INNER = 32
POSITIONS = 48
SPACE = 12
SIDE = 8
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = (*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), "red", "blue", "river")

Weights = dict[str, np.ndarray[Any, np.dtype[Any]]]


def build_tokenizer() -> Tokenizer:
    """A tokenizer that would cut and pad, as some on hubs would."""
    tokenizer = Tokenizer(
        models.WordPiece({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=20)
    return tokenizer


class Graph:
    """A graph in the making."""

    def __init__(self, seed: int) -> None:
        self.weights: Weights = {}
        self.nodes: list[onnx.NodeProto] = []
        self._random = np.random.default_rng(seed)
        self._constants: dict[str, Any] = {}

    def weight(self, name: str, *shape: int, near: float = 0.0) -> str:
        if name not in self.weights:
            noise = self._random.standard_normal(shape) * 0.3 + near
            self.weights[name] = noise.astype(np.float32)
        return name

    def constant(self, name: str, value: Any) -> str:
        self._constants[name] = np.asarray(value)
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def linear(self, at: str, value: str, outputs: int, inputs: int) -> str:
        weight = self.weight(f"{at}.weight", outputs, inputs)
        turned = self.add("Transpose", weight, perm=[1, 0])
        product = self.add("MatMul", value, turned)
        return self.add("Add", product, self.weight(f"{at}.bias", outputs))

    def norm(self, at: str, value: str) -> str:
        scale = self.weight(f"{at}.weight", WIDTH, near=1.0)
        shift = self.weight(f"{at}.bias", WIDTH)
        return self.add("LayerNormalization", value, scale, shift, axis=-1, epsilon=1e-12)

    def encoder(self, *, types: bool = True, mask: bool = True) -> str:
        """One layer of an encoder with one head; a vector for each token."""
        at = "embeddings."
        words = self.weight(at + "word_embeddings.weight", len(WORDS), WIDTH)
        positions = self.weight(at + "position_embeddings.weight", POSITIONS, WIDTH)
        kinds = self.weight(at + "token_type_embeddings.weight", 2, WIDTH)
        length = self.add("Shape", "input_ids", start=1, end=2)
        length = self.add("Squeeze", length)
        zero, one = self.constant("zero", np.int64(0)), self.constant("one", np.int64(1))
        places = self.add("Range", zero, length, one)
        state = self.add("Gather", words, "input_ids")
        state = self.add("Add", state, self.add("Gather", positions, places))
        chosen = "token_type_ids" if types else zero
        state = self.add("Add", state, self.add("Gather", kinds, chosen))
        state = self.norm(at + "LayerNorm", state)
        at = "encoder.layer.0."
        query, key, value = (
            self.linear(f"{at}attention.self.{name}", state, WIDTH, WIDTH)
            for name in ("query", "key", "value")
        )
        scores = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 2, 1]))
        scores = self.add("Div", scores, self.constant("root", np.float32(WIDTH**0.5)))
        if mask:
            masked = self.add("Cast", "attention_mask", to=TensorProto.FLOAT)
            masked = self.add("Sub", masked, self.constant("unit", np.float32(1)))
            masked = self.add("Mul", masked, self.constant("much", np.float32(1e9)))
            masked = self.add("Unsqueeze", masked, self.constant("axis", np.array([1], np.int64)))
            scores = self.add("Add", scores, masked)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), value)
        mixed = self.linear(at + "attention.output.dense", mixed, WIDTH, WIDTH)
        state = self.norm(at + "attention.output.LayerNorm", self.add("Add", state, mixed))
        inner = self.linear(at + "intermediate.dense", state, INNER, WIDTH)
        root = self.constant("root_two", np.float32(2**0.5))
        half = self.constant("half", np.float32(0.5))
        erf = self.add("Erf", self.add("Div", inner, root))
        erf = self.add("Add", erf, self.constant("unit", np.float32(1)))
        inner = self.add("Mul", self.add("Mul", inner, half), erf)
        inner = self.linear(at + "output.dense", inner, WIDTH, INNER)
        return self.norm(at + "output.LayerNorm", self.add("Add", state, inner))

    def first_token(self, state: str) -> str:
        return self.add("Gather", state, self.constant("zero", np.int64(0)), axis=1)

    def name(self, value: str, name: str) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    def model(self, inputs: list[str], outputs: dict[str, list[Any]]) -> onnx.ModelProto:
        tensors = [numpy_helper.from_array(v, n) for n, v in self.weights.items()]
        tensors += [numpy_helper.from_array(v, n) for n, v in self._constants.items()]
        graph = helper.make_graph(
            self.nodes,
            "tiny",
            [_INPUTS[name] for name in inputs],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
            tensors,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model


_INPUTS = {
    name: helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
    for name in ("input_ids", "attention_mask", "token_type_ids")
}
_INPUTS["pixel_values"] = helper.make_tensor_value_info(
    "pixel_values", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE]
)
TEXTS = list(_INPUTS)[:3]
CONFIG: dict[str, Any] = {
    "model_type": "tiny",
    "architectures": ["TinyModel"],
    "hidden_size": WIDTH,
    "max_position_embeddings": POSITIONS,
    "task_specific_params": {"prompts": {"query": "never put before a text: "}},
}
PREPROCESSOR: dict[str, Any] = {
    "do_resize": True,
    "size": {"shortest_edge": SIDE},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": SIDE, "width": SIDE},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.25, 0.3],
    "do_convert_rgb": True,
}


def build_embedder(folder: Path, *, cls: bool = False) -> Weights:
    """Mean-pooled, weights in `onnx/`; or CLS-pooled with a layer norm, weights at the root."""
    graph = Graph(seed=1)
    graph.name(graph.encoder(), "last_hidden_state")
    model = graph.model(TEXTS, {"last_hidden_state": ["batch", "sequence", WIDTH]})
    _describe(folder, CONFIG)
    _write(
        folder / "1_Pooling/config.json",
        {f"pooling_mode_{'cls_token' if cls else 'mean_tokens'}": True},
    )
    modules = ["Transformer", "Pooling", *(["LayerNorm"] if cls else []), "Normalize"]
    paths = ["", "1_Pooling", "2_LayerNorm"]
    _write(
        folder / "modules.json",
        [
            {
                "idx": n,
                "name": str(n),
                "path": paths[n] if n < 3 else "3",
                "type": f"sentence_transformers.models.{kind}",
            }
            for n, kind in enumerate(modules)
        ],
    )
    if cls:
        from safetensors.numpy import save_file

        norm = {
            name: graph.weights[graph.weight(name, WIDTH)] for name in ("norm.weight", "norm.bias")
        }
        (folder / "2_LayerNorm").mkdir(exist_ok=True)
        save_file(norm, folder / "2_LayerNorm/model.safetensors")
    _save(model, folder / ("model.onnx" if cls else "onnx/model.onnx"))
    return graph.weights


def build_reranker(folder: Path) -> Weights:
    """One label over the first token."""
    graph = Graph(seed=2)
    head = graph.linear("classifier", graph.first_token(graph.encoder()), 1, WIDTH)
    graph.name(head, "logits")
    _describe(
        folder,
        {
            **CONFIG,
            "architectures": ["TinyForSequenceClassification"],
            "id2label": {"0": "LABEL_0"},
        },
    )
    _save(graph.model(TEXTS, {"logits": ["batch", 1]}), folder / "model.onnx")
    return graph.weights


def build_shared_space(folder: Path, *, split: bool) -> Weights:
    """Texts and images in one graph, or in two whose texts have no mask."""
    graphs = [Graph(seed=3), Graph(seed=4)] if split else [Graph(seed=3)] * 2
    state = graphs[0].first_token(graphs[0].encoder(types=False, mask=not split))
    graphs[0].name(graphs[0].linear("text_projection", state, SPACE, WIDTH), "text_embeds")
    flat = graphs[1].add("Flatten", "pixel_values", axis=1)
    pixels = 3 * SIDE * SIDE
    graphs[1].name(graphs[1].linear("visual_projection", flat, SPACE, pixels), "image_embeds")
    _describe(
        folder,
        {
            "model_type": "tiny_clip",
            "architectures": ["TinyClipModel"],
            "projection_dim": SPACE,
            "text_config": {"max_position_embeddings": POSITIONS},
        },
    )
    _write(folder / "preprocessor_config.json", PREPROCESSOR)
    sides = {"text_embeds": ["batch", SPACE]}, {"image_embeds": ["batch", SPACE]}
    if split:
        _save(graphs[0].model(["input_ids"], sides[0]), folder / "onnx/text_model.onnx")
        _save(graphs[1].model(["pixel_values"], sides[1]), folder / "onnx/vision_model.onnx")
    else:
        inputs = ["input_ids", "pixel_values", "attention_mask"]
        _save(graphs[0].model(inputs, sides[0] | sides[1]), folder / "model.onnx")
    return graphs[0].weights | graphs[1].weights


def _describe(folder: Path, config: dict[str, Any]) -> None:
    _write(folder / "config.json", config)
    build_tokenizer().save(str(folder / "tokenizer.json"))


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _save(model: onnx.ModelProto, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def build_tiny_onnx(folder: Path) -> dict[str, Weights]:
    """All of them below `folder`, each in a folder of its name; their weights."""
    return {
        "mean": build_embedder(folder / "mean"),
        "cls": build_embedder(folder / "cls", cls=True),
        "rerank": build_reranker(folder / "rerank"),
        "clip": build_shared_space(folder / "clip", split=False),
        "split": build_shared_space(folder / "split", split=True),
    }


class TinyOnnx:
    """The folders of the tiny models, and their weights."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.weights = build_tiny_onnx(root)
