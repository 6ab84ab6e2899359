"""Models of half a megabyte with random weights, for each thing that an engine does.

They are small enough to be made anew in every test session and whole enough to run in the real
engine: what they answer means nothing, how they answer is what tests are about. The seeds are
fixed, so every session makes the same bytes. `python tests/support/tiny_models.py DIR` makes them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np

WIDTH = 64
LAYERS = 2
HEADS = 4
FEED_FORWARD = 128

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DECISION_TEMPLATE = (
    "[CLS]{{ type }} question: {{ instructions }}[SEP]{% for o in options %}[MASK] "
    "{% if type == 'choice' %}{{ o.key }}{% if o.description %}: {{ o.description }}{% endif %}"
    "{% elif type == 'score' %}level {{ o.key }}: {{ o.description }}"
    "{% else %}{{ o.key }}{% endif %}"
    "{% endfor %}[SEP]{{ state }}[SEP]"
)


def build_tiny_models(folder: Path) -> None:
    """Write every tiny model into `folder`."""
    build_chat(folder / "tiny-chat.gguf")
    build_chat(folder / "tiny-chat-no-template.gguf", template=False)
    build_encoder(folder / "tiny-embed.gguf", gguf.PoolingType.MEAN)
    build_encoder(folder / "tiny-rerank.gguf", gguf.PoolingType.RANK)
    build_encoder(folder / "tiny-rerank-headless.gguf", gguf.PoolingType.RANK, head=False)
    build_decision(folder / "tiny-decision.gguf")
    build_chat(folder / "tiny-senses.gguf", pooling=gguf.PoolingType.MEAN)
    build_projector(folder / "tiny-projector.gguf")
    build_projector(folder / "tiny-projector-wide.gguf", width=2 * WIDTH)


class _Model:
    """A GGUF file in the making: its writer, and the source of its random weights."""

    def __init__(self, path: Path, architecture: str, seed: int) -> None:
        self.writer = gguf.GGUFWriter(path, architecture)
        self.writer.add_name(path.stem)
        self.writer.add_file_type(0)
        self._random = np.random.default_rng(seed)

    def noise(self, name: str, *shape: int, deviation: float = 0.1) -> None:
        values = self._random.standard_normal(shape) * deviation
        self.writer.add_tensor(name, values.astype(np.float32))

    def halves(self, name: str, *shape: int) -> None:
        values = self._random.standard_normal(shape) * 0.1
        self.writer.add_tensor(name, values.astype(np.float16))

    def ones(self, name: str, *shape: int) -> None:
        self.writer.add_tensor(name, np.ones(shape, np.float32))

    def zeros(self, name: str, *shape: int) -> None:
        self.writer.add_tensor(name, np.zeros(shape, np.float32))

    def write(self) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def build_chat(
    path: Path,
    *,
    template: bool = True,
    context: int = 2048,
    pooling: gguf.PoolingType | None = None,
) -> None:
    """A decoder that generates random bytes; with a large context, for a long time.

    With a pooling it is an embedder, to which a projector can be given.
    """
    tokens = [*_byte_tokens(), "<|im_start|>", "<|im_end|>", "<s>", "th"]
    model = _Model(path, "llama", seed=0)
    writer = model.writer
    writer.add_context_length(context)
    _add_shape(writer)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    _add_tokenizer(writer, "gpt2", "gpt-2", tokens, [*[normal] * 256, *[control] * 3, normal])
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(258)
    writer.add_eos_token_id(257)
    writer.add_add_bos_token(False)
    if pooling is not None:
        writer.add_pooling_type(pooling)
    if template:
        writer.add_chat_template(CHAT_TEMPLATE)
    model.noise("token_embd.weight", len(tokens), WIDTH, deviation=1.0)
    model.ones("output_norm.weight", WIDTH)
    model.noise("output.weight", len(tokens), WIDTH, deviation=0.3)
    for block in (f"blk.{i}" for i in range(LAYERS)):
        model.ones(f"{block}.attn_norm.weight", WIDTH)
        model.ones(f"{block}.ffn_norm.weight", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            model.noise(f"{block}.{name}.weight", WIDTH, WIDTH)
        model.noise(f"{block}.ffn_gate.weight", FEED_FORWARD, WIDTH)
        model.noise(f"{block}.ffn_up.weight", FEED_FORWARD, WIDTH)
        model.noise(f"{block}.ffn_down.weight", WIDTH, FEED_FORWARD)
    model.write()


def build_encoder(
    path: Path, pooling: gguf.PoolingType, *, head: bool = True, context: int = 512
) -> None:
    """An encoder that embeds, or with rank pooling reranks; without `head` its scores are void."""
    rank = pooling is gguf.PoolingType.RANK
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,?!'-"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, *("\u2581" + letter for letter in letters), *letters]
    model = _Model(path, "bert", seed=1)
    writer = model.writer
    writer.add_context_length(context)
    _add_shape(writer)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    types = [gguf.TokenType.CONTROL] * 5 + [gguf.TokenType.NORMAL] * (len(tokens) - 5)
    _add_tokenizer(writer, "bert", "jina-v2-en", tokens, types)
    writer.add_token_type_count(2)
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(3)
    writer.add_sep_token_id(3)
    writer.add_mask_token_id(4)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    if rank:
        writer.add_array("bert.classifier.output_labels", ["LABEL_0"])
    model.noise("token_embd.weight", len(tokens), WIDTH, deviation=1.0)
    model.noise("token_types.weight", 2, WIDTH, deviation=0.3)
    model.noise("position_embd.weight", context, WIDTH, deviation=0.3)
    model.ones("token_embd_norm.weight", WIDTH)
    model.zeros("token_embd_norm.bias", WIDTH)
    for block in (f"blk.{i}" for i in range(LAYERS)):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            model.noise(f"{block}.{name}.weight", WIDTH, WIDTH, deviation=0.2)
            model.zeros(f"{block}.{name}.bias", WIDTH)
        for name in ("attn_output_norm", "layer_output_norm"):
            model.ones(f"{block}.{name}.weight", WIDTH)
            model.zeros(f"{block}.{name}.bias", WIDTH)
        model.noise(f"{block}.ffn_up.weight", FEED_FORWARD, WIDTH, deviation=0.2)
        model.zeros(f"{block}.ffn_up.bias", FEED_FORWARD)
        model.noise(f"{block}.ffn_down.weight", WIDTH, FEED_FORWARD, deviation=0.2)
        model.zeros(f"{block}.ffn_down.bias", WIDTH)
    if rank and head:
        model.noise("cls.output.weight", 1, WIDTH, deviation=0.5)
        model.zeros("cls.output.bias", 1)
    model.write()


def build_decision(path: Path) -> None:
    """A native decision model: two encoder layers and one layer of decision head."""
    encoder, head = 2, 1
    layers = encoder + head
    tokens = [*_byte_tokens(), "[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "th"]
    model = _Model(path, "modern-bert", seed=0)
    writer = model.writer
    writer.add_block_count(layers)
    writer.add_context_length(1024)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length([FEED_FORWARD] * encoder + [4 * WIDTH] * head)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-5)
    writer.add_causal_attention(False)
    writer.add_sliding_window(64)
    writer.add_sliding_window_pattern(3)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    types = [*[normal] * 256, *[control] * 5, normal]
    _add_tokenizer(writer, "gpt2", "modern-bert", tokens, types)
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_sep_token_id(257)
    writer.add_mask_token_id(258)
    writer.add_pad_token_id(259)
    writer.add_unk_token_id(260)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_sep_token(True)
    writer.add_token_type_count(3)
    writer.add_chat_template([{"name": "systemone", "template": DECISION_TEMPLATE}])
    writer.add_string("modern-bert.decision.type", "laya")
    writer.add_uint32("modern-bert.decision.block_count", head)
    writer.add_uint32("modern-bert.decision.max_head_tokens", 256)
    for question in ("choice", "score", "noul"):
        writer.add_float32(f"modern-bert.decision.temperature.{question}", 1.0)
    model.noise("token_embd.weight", len(tokens), WIDTH, deviation=1.0)
    model.ones("token_embd_norm.weight", WIDTH)
    model.ones("output_norm.weight", WIDTH)
    model.noise("token_types.weight", 3, WIDTH, deviation=0.5)
    for layer in range(layers):
        _add_decision_layer(model, layer, in_head=layer >= encoder)
    model.noise("cls.weight", WIDTH, WIDTH, deviation=0.3)
    model.zeros("cls.bias", WIDTH)
    model.ones("cls.norm.weight", WIDTH)
    model.zeros("cls.norm.bias", WIDTH)
    model.noise("cls.output.weight", 1, WIDTH, deviation=0.5)
    model.zeros("cls.output.bias", 1)
    model.write()


def _add_decision_layer(model: _Model, layer: int, *, in_head: bool) -> None:
    block = f"blk.{layer}"
    # Encoder layers have a gated feed-forward, twice as wide on its way up; the head has not.
    up, down = (4 * WIDTH, 4 * WIDTH) if in_head else (2 * FEED_FORWARD, FEED_FORWARD)
    if layer:
        model.ones(f"{block}.attn_norm.weight", WIDTH)
    model.noise(f"{block}.attn_qkv.weight", 3 * WIDTH, WIDTH, deviation=0.2)
    model.noise(f"{block}.attn_output.weight", WIDTH, WIDTH, deviation=0.2)
    model.ones(f"{block}.ffn_norm.weight", WIDTH)
    model.noise(f"{block}.ffn_up.weight", up, WIDTH, deviation=0.2)
    model.noise(f"{block}.ffn_down.weight", WIDTH, down, deviation=0.2)
    if in_head:
        widths = {"attn_norm": 1, "attn_qkv": 3, "attn_output": 1}
        widths |= {"ffn_norm": 1, "ffn_up": 4, "ffn_down": 1}
        for name, times in widths.items():
            model.zeros(f"{block}.{name}.bias", times * WIDTH)


def build_projector(
    path: Path, *, width: int = WIDTH, hears: int | None = None, unexpected: bool = False
) -> None:
    """Eyes and ears for a model of that width: 64 pixels square, mel spectrograms of 80 bands.

    With another width at which it `hears`, no model takes it. With a tensor that is `unexpected`
    its header is sound and the engine aborts on it.
    """
    heard = hears or width
    inner, heads, up, patch, side = 32, 2, 64, 8, 64
    model = _Model(path, "clip", seed=2)
    writer = model.writer
    writer.add_type("mmproj")
    writer.add_bool("clip.use_gelu", True)
    for sense, kind in (("vision", "gemma3"), ("audio", "ultravox")):
        writer.add_bool(f"clip.has_{sense}_encoder", True)
        writer.add_string(f"clip.{sense}.projector_type", kind)
        writer.add_uint32(f"clip.{sense}.embedding_length", inner)
        writer.add_uint32(f"clip.{sense}.attention.head_count", heads)
        writer.add_uint32(f"clip.{sense}.feed_forward_length", up)
        writer.add_uint32(f"clip.{sense}.block_count", 1)
        writer.add_uint32(f"clip.{sense}.projection_dim", heard if sense == "audio" else width)
        writer.add_float32(f"clip.{sense}.attention.layer_norm_epsilon", 1e-6)
    writer.add_uint32("clip.vision.image_size", side)
    writer.add_uint32("clip.vision.patch_size", patch)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    writer.add_uint32("clip.vision.projector.scale_factor", 4)
    writer.add_uint32("clip.audio.num_mel_bins", 80)
    writer.add_uint32("clip.audio.projector.stack_factor", 4)
    for sense in ("v", "a"):
        block = f"{sense}.blk.0"
        for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
            model.noise(f"{block}.{name}.weight", inner, inner)
            if (sense, name) != ("a", "attn_k"):
                model.zeros(f"{block}.{name}.bias", inner)
        for name in (f"{block}.ln1", f"{block}.ln2", f"{sense}.post_ln"):
            model.ones(f"{name}.weight", inner)
            model.zeros(f"{name}.bias", inner)
        model.noise(f"{block}.ffn_up.weight", up, inner)
        model.zeros(f"{block}.ffn_up.bias", up)
        model.noise(f"{block}.ffn_down.weight", inner, up)
        model.zeros(f"{block}.ffn_down.bias", inner)
    model.noise("v.patch_embd.weight", inner, 3, patch, patch)
    model.zeros("v.patch_embd.bias", inner)
    model.noise("v.position_embd.weight", (side // patch) ** 2, inner)
    model.noise("mm.input_projection.weight", inner, width)
    model.ones("mm.soft_emb_norm.weight", inner)
    model.halves("a.conv1d.1.weight", inner, 80, 3)
    model.zeros("a.conv1d.1.bias", inner, 1)
    model.halves("a.conv1d.2.weight", inner, inner, 3)
    model.zeros("a.conv1d.2.bias", inner, 1)
    model.noise("a.position_embd.weight", 1500, inner)
    model.ones("mm.a.norm_pre.weight", 4 * inner)
    model.noise("mm.a.mlp.1.weight", 4 * inner, 4 * inner)
    model.ones("mm.a.norm_mid.weight", 2 * inner)
    model.noise("mm.a.mlp.2.weight", heard, 2 * inner)
    if unexpected:
        model.zeros("a.blk.0.attn_k.bias", inner)
    model.write()


def _add_shape(writer: gguf.GGUFWriter) -> None:
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)


def _add_tokenizer(
    writer: gguf.GGUFWriter, model: str, pre: str, tokens: list[str], types: list[Any]
) -> None:
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)


def _byte_tokens() -> list[str]:
    """One printable character for each byte, as byte-level tokenizers spell them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelling = {byte: chr(byte) for byte in printable}
    for byte in (byte for byte in range(256) if byte not in spelling):
        spelling[byte] = chr(256 + len(spelling) - len(printable))
    return [spelling[byte] for byte in range(256)]


if __name__ == "__main__":
    from support.tiny_pipeline import build_tiny_pipeline

    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    build_tiny_models(target)
    build_tiny_pipeline(target / "tiny-pipeline")
