"""A text-to-image folder of some hundred kilobytes with random weights.

It has the exported layout and whole graphs: what it paints means nothing, but every input of every
graph moves the result. The seeds are fixed, so every session makes the same bytes.
`python tests/support/tiny_pipeline.py DIR` makes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH = 16
LENGTH = 77
CHANNELS = 4
HIDDEN = 8
UPSCALE = 4
NATIVE = 8
"""Latent pixels of a side: an image of 32 x 32."""
GUIDANCE_WIDTH = 8
WORDS = ("a", "cat", "dog", "on", "mars", "red", "the")
BEGIN, END = "<|startoftext|>", "<|endoftext|>"

Config = dict[str, Any]

INDEX: Config = {
    "_class_name": "StableDiffusionPipeline",
    "_diffusers_version": "0.30.0",
    "feature_extractor": [None, None],
    "requires_safety_checker": False,
    "safety_checker": [None, None],
    "scheduler": ["diffusers", "DDIMScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "unet": ["diffusers", "UNet2DConditionModel"],
    "vae": ["diffusers", "AutoencoderKL"],
}
DDIM: Config = {
    "_class_name": "DDIMScheduler",
    "_diffusers_version": "0.30.0",
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "clip_sample": False,
    "num_train_timesteps": 1000,
    "prediction_type": "epsilon",
    "set_alpha_to_one": False,
    "skip_prk_steps": True,
    "steps_offset": 1,
    "timestep_spacing": "leading",
    "trained_betas": None,
}
LCM: Config = {
    "_class_name": "LCMScheduler",
    "_diffusers_version": "0.30.0",
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "clip_sample": False,
    "clip_sample_range": 1.0,
    "num_train_timesteps": 1000,
    "original_inference_steps": 50,
    "prediction_type": "epsilon",
    "rescale_betas_zero_snr": False,
    "set_alpha_to_one": True,
    "steps_offset": 1,
    "thresholding": False,
    "timestep_scaling": 10.0,
    "timestep_spacing": "leading",
}
UNET: Config = {
    "_class_name": "UNet2DConditionModel",
    "block_out_channels": [HIDDEN],
    "class_embed_type": None,
    "cross_attention_dim": WIDTH,
    "in_channels": CHANNELS,
    "out_channels": CHANNELS,
    "sample_size": NATIVE,
    "time_cond_proj_dim": None,
}
VAE: Config = {
    "_class_name": "AutoencoderKL",
    "block_out_channels": [4, 4, 4],
    "latent_channels": CHANNELS,
    "scaling_factor": 0.18215,
}
TEXT_ENCODER: Config = {"hidden_size": WIDTH, "max_position_embeddings": LENGTH}
SPECIAL_TOKENS: Config = {
    "bos_token": {"content": BEGIN},
    "eos_token": {"content": END},
    "pad_token": "!",
    "unk_token": END,
}
TOKENIZER_CONFIG: Config = {"model_max_length": LENGTH, "pad_token": END}


def build_tiny_pipeline(
    folder: Path,
    *,
    scheduler: Config = DDIM,
    guided: bool = False,
    not_finite: str = "",
    batch: int | str = "batch",
    half: bool = False,
    changed: Mapping[str, Config] | None = None,
) -> Path:
    """Write a pipeline into `folder` and return that.

    `guided` makes guidance an input of the denoiser; `not_finite` names the graph that divides by
    zero; `batch` fixes the latents at a time; `half` takes and gives the denoiser's in float16;
    `changed` overrides members of configurations, by their file's name.
    """
    configs = {
        "model_index.json": INDEX
        | ({"_class_name": "LatentConsistencyModelPipeline"} if guided else {}),
        "scheduler/scheduler_config.json": scheduler,
        "unet/config.json": UNET | ({"time_cond_proj_dim": GUIDANCE_WIDTH} if guided else {}),
        "vae_decoder/config.json": VAE,
        "text_encoder/config.json": TEXT_ENCODER | {"vocab_size": len(build_vocabulary())},
        "tokenizer/tokenizer_config.json": TOKENIZER_CONFIG,
        "tokenizer/special_tokens_map.json": SPECIAL_TOKENS,
        "tokenizer/vocab.json": build_vocabulary(),
    }
    for name, config in configs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        members = config | (changed or {}).get(name, {})
        path.write_text(json.dumps(members, ensure_ascii=False), "utf-8")
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in build_merges()), ""]
    (folder / "tokenizer/merges.txt").write_text("\n".join(lines), "utf-8")
    (folder / "text_encoder/model.onnx").write_bytes(text_encoder(not_finite == "text_encoder"))
    (folder / "unet/model.onnx").write_bytes(unet(guided, not_finite == "unet", batch, half))
    (folder / "vae_decoder/model.onnx").write_bytes(vae_decoder(not_finite == "vae_decoder"))
    return folder


def byte_characters() -> list[str]:
    """The character that stands for each byte: itself where it can be seen, else one from 256 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    characters = {byte: chr(byte) for byte in seen}
    characters |= {byte: chr(256 + at) for at, byte in enumerate(hidden)}
    return [characters[byte] for byte in (*seen, *hidden)]


def build_merges() -> list[tuple[str, str]]:
    """Pairs that lead to `WORDS`, from their beginnings on."""
    merges: dict[tuple[str, str], None] = {}
    for word in WORDS:
        letters = [*word[:-1], word[-1] + "</w>"]
        whole = letters[0]
        for letter in letters[1:]:
            merges[whole, letter] = None
            whole += letter
    return list(merges)


def build_vocabulary() -> dict[str, int]:
    characters = byte_characters()
    words = [*characters, *(f"{one}</w>" for one in characters)]
    words += ["".join(pair) for pair in build_merges()]
    return {word: number for number, word in enumerate([*words, BEGIN, END])}


class _Graph:
    """A graph in the making: nodes one after the other, and random weights."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: object) -> str:
        output = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: npt.NDArray[Any]) -> str:
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def random(self, *shape: int, deviation: float) -> str:
        values = self._random.standard_normal(shape) * deviation
        return self.constant(values.astype(np.float32))

    def shape(self, *sizes: int) -> str:
        return self.constant(np.array(sizes, np.int64))

    def infinite(self, value: str) -> str:
        return self.node("Div", value, self.constant(np.zeros((), np.float32)))

    def model(
        self,
        name: str,
        inputs: Mapping[str, tuple[int, Sequence[int | str]]],
        outputs: Mapping[str, tuple[int, Sequence[int | str]]],
    ) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in outputs.items()],
            self.weights,
        )
        opset = helper.make_opsetid("", 17)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()


@cache
def text_encoder(not_finite: bool) -> bytes:
    """Each token sees those before it; the pooled output comes first, which is not the states."""
    graph = _Graph(seed=11)
    words = graph.random(len(build_vocabulary()), WIDTH, deviation=1.0)
    found = graph.node("Gather", words, "input_ids", axis=0)
    placed = graph.node("Add", found, graph.random(LENGTH, WIDTH, deviation=0.3))
    before = np.tril(np.ones((LENGTH, LENGTH), np.float32))
    mixed = graph.node("MatMul", graph.constant(before / before.sum(1, keepdims=True)), placed)
    turned = graph.node("MatMul", mixed, graph.random(WIDTH, WIDTH, deviation=0.4))
    states = graph.node("Add", placed, graph.node("Tanh", turned))
    if not_finite:
        states = graph.infinite(states)
    graph.node("Identity", states, name="last_hidden_state")
    graph.node("ReduceMax", states, axes=[1], keepdims=0, name="pooler_output")
    return graph.model(
        "text_encoder",
        {"input_ids": (TensorProto.INT32, ("batch", LENGTH))},
        {
            "pooler_output": (TensorProto.FLOAT, ("batch", WIDTH)),
            "last_hidden_state": (TensorProto.FLOAT, ("batch", LENGTH, WIDTH)),
        },
    )


@cache
def unet(guided: bool, not_finite: bool, batch: int | str, half: bool) -> bytes:
    """Convolutions over the latents, moved by the timestep and by attention to the prompt."""
    graph = _Graph(seed=12)
    sample, states = "sample", "encoder_hidden_states"
    if half:
        sample = graph.node("Cast", sample, to=TensorProto.FLOAT)
        states = graph.node("Cast", states, to=TensorProto.FLOAT)
    rates = graph.constant(np.exp(-np.arange(4, dtype=np.float32) * 2.0)[None])
    time = graph.node("Cast", "timestep", to=TensorProto.FLOAT)
    angles = graph.node("Mul", graph.node("Reshape", time, graph.shape(1, 1)), rates)
    waves = graph.node("Concat", graph.node("Sin", angles), graph.node("Cos", angles), axis=1)
    moved = graph.node("MatMul", waves, graph.random(8, HIDDEN, deviation=0.5))
    scores = graph.node("MatMul", states, graph.random(WIDTH, 1, deviation=0.7))
    weighed = graph.node("Mul", graph.node("Softmax", scores, axis=1), states)
    seen = graph.node("ReduceSum", weighed, graph.shape(1), keepdims=0)
    seen = graph.node("MatMul", seen, graph.random(WIDTH, HIDDEN, deviation=0.7))
    moved = graph.node("Add", moved, seen)
    inputs: dict[str, tuple[int, Sequence[int | str]]] = {}
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    inputs["sample"] = (kind, (batch, CHANNELS, "height", "width"))
    inputs["timestep"] = (TensorProto.INT64, ("steps",))
    inputs["encoder_hidden_states"] = (kind, (batch, LENGTH, WIDTH))
    if guided:
        inputs["timestep_cond"] = (TensorProto.FLOAT, (batch, GUIDANCE_WIDTH))
        strength = graph.random(GUIDANCE_WIDTH, HIDDEN, deviation=0.4)
        moved = graph.node("Add", moved, graph.node("MatMul", "timestep_cond", strength))
    moved = graph.node("Reshape", moved, graph.shape(-1, HIDDEN, 1, 1))
    kernel = graph.random(HIDDEN, CHANNELS, 3, 3, deviation=0.15)
    hidden = graph.node("Conv", sample, kernel, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    hidden = graph.node("Tanh", graph.node("Add", hidden, moved))
    kernel = graph.random(CHANNELS, HIDDEN, 3, 3, deviation=0.08)
    change = graph.node("Conv", hidden, kernel, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    kept = graph.node("Mul", sample, graph.constant(np.array(0.95, np.float32)))
    result = graph.node("Add", kept, change)
    if not_finite:
        result = graph.infinite(result)
    graph.node("Cast", result, name="out_sample", to=kind)
    shape = (batch, CHANNELS, "height", "width")
    return graph.model("unet", inputs, {"out_sample": (kind, shape)})


@cache
def vae_decoder(not_finite: bool) -> bytes:
    """A convolution whose channels become pixels."""
    graph = _Graph(seed=13)
    kernel = graph.random(3 * UPSCALE**2, CHANNELS, 3, 3, deviation=0.02)
    spread = graph.node("Conv", "latent_sample", kernel, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    pixels = graph.node("DepthToSpace", graph.node("Tanh", spread), blocksize=UPSCALE)
    if not_finite:
        pixels = graph.infinite(pixels)
    graph.node("Identity", pixels, name="sample")
    return graph.model(
        "vae_decoder",
        {"latent_sample": (TensorProto.FLOAT, ("batch", CHANNELS, "height", "width"))},
        {"sample": (TensorProto.FLOAT, ("batch", 3, "tall", "wide"))},
    )


if __name__ == "__main__":
    build_tiny_pipeline(Path(sys.argv[1]))
