"""The flags of `launch.build_engine_command` as settings of llama-cpp-python's server. Pure.

A flag acts, or it says of this engine what is so anyway (it has no shift, no pages, no deadline of
its own, fetches nothing, and renders chats with the file's template), or it is refused with exit 2
and a sentence. Of the settings none is left to the library's own defaults, which it would read from
the environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pumas_server.worker.own_engine import bounded

MAX_TOKENS = 16_777_216
DEFAULT_BATCH = 512
#: A read and write deadline of a day or more: the engine has none at all.
NO_DEADLINE_SECONDS = 86_400
CACHE_TYPES = {
    "f32": 0,
    "f16": 1,
    "q4_0": 2,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "q8_0": 8,
    "iq4_nl": 20,
    "bf16": 30,
}
SPLIT_MODES = {"none": 0, "layer": 1, "row": 2}
ROPE_SCALINGS = {"none": 0, "linear": 1, "yarn": 2}
_FRACTIONS = {
    "--rope-freq-base": "rope_freq_base",
    "--rope-freq-scale": "rope_freq_scale",
    "--yarn-ext-factor": "yarn_ext_factor",
    "--yarn-attn-factor": "yarn_attn_factor",
    "--yarn-beta-slow": "yarn_beta_slow",
    "--yarn-beta-fast": "yarn_beta_fast",
}
#: What is so with this engine whether it is told or not.
_TRUE_ANYWAY = ("-kvu", "--slots", "--metrics", "--jinja", "--no-context-shift", "--no-ui")
_REFUSED = {
    "--mmproj": "there are no projectors",
    "--chat-template": "the chat template is the file's",
    "--pooling": "the pooling is the one that the file states",
    "--rerank": "there is no reranking",
    "--cache-reuse": "there is no reuse of shifted prompts",
    "--reasoning-format": "reasoning is not taken apart",
    "--swa-full": "the size of a sliding window's cache cannot be set",
}


class Flags(argparse.Namespace):
    """The flags, as far as they are not settings of the library."""

    file: str
    alias: str
    host: str
    port: int
    api_key_file: Path | None
    threads: int
    threads_http: int
    embeds: bool
    tokens: int
    batch: int | None
    micro_batch: int | None
    gpu_layers: int
    flash_attention: str
    cache_type_k: str | None
    cache_type_v: str | None
    split_mode: str
    main_gpu: int
    tensor_split: list[float] | None
    rope_scaling: str | None
    rope_scale: float | None
    yarn_orig_ctx: int
    no_kv_offload: bool
    slot_tokens: int | None


def read_flags(arguments: list[str]) -> Flags:
    """The flags' values; exits 2 for a flag that is not known and a value that cannot be kept."""
    parser = _parser()
    flags = parser.parse_args(arguments, namespace=Flags())
    if flags.slot_tokens not in (None, flags.tokens):
        parser.error("--kv-unified-per-slot is the whole context here: there is one slot")
    if (flags.micro_batch or 0) > (flags.batch or DEFAULT_BATCH):
        parser.error("-ub is at most -b")
    return flags


def model_settings(flags: Flags) -> dict[str, object]:
    """The fields of the library's `ModelSettings` that these flags set."""
    batch = flags.batch or DEFAULT_BATCH
    settings: dict[str, object] = {
        "model": flags.file,
        "model_alias": flags.alias,
        "n_ctx": flags.tokens,
        "n_batch": batch,
        "n_ubatch": flags.micro_batch or min(batch, DEFAULT_BATCH),
        "n_threads": flags.threads,
        "n_threads_batch": flags.threads,
        "n_gpu_layers": flags.gpu_layers,
        "flash_attn": flags.flash_attention == "on",
        "embedding": flags.embeds,
        "split_mode": SPLIT_MODES[flags.split_mode],
        "main_gpu": flags.main_gpu,
        "offload_kqv": not flags.no_kv_offload,
        "yarn_orig_ctx": flags.yarn_orig_ctx,
        "use_mlock": False,
        # A float for every token of the vocabulary and of the context: 8 GiB for a common model.
        "logits_all": False,
        # Its bound counts a part of what it keeps (ADR 18).
        "cache": False,
        # Its load is silenced with the standard streams, which other threads use; the log is ours.
        "verbose": False,
    }
    for field, name, words in (
        ("type_k", flags.cache_type_k, CACHE_TYPES),
        ("type_v", flags.cache_type_v, CACHE_TYPES),
        ("rope_scaling_type", flags.rope_scaling, ROPE_SCALINGS),
    ):
        if name is not None:
            settings[field] = words[name]
    if flags.rope_scale is not None:
        settings["rope_freq_scale"] = 1 / flags.rope_scale
    if flags.tensor_split is not None:
        settings["tensor_split"] = flags.tensor_split
    given = vars(flags)
    return settings | {name: given[name] for name in _FRACTIONS.values() if name in given}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="llama-cpp-python", allow_abbrev=False)
    add = parser.add_argument
    add("-m", dest="file", required=True)
    add("-a", dest="alias", default="model")
    add("--host", default="127.0.0.1")
    add("--port", type=bounded(0, 65_535), default=8080)
    add("--api-key-file", type=Path)
    add("-t", dest="threads", type=bounded(1, 1024), default=1)
    add("--threads-http", type=bounded(1, 1024), default=40)
    add("-c", dest="tokens", type=bounded(1, MAX_TOKENS), default=4096)
    add("-np", type=_only(1, "one call is worked on at a time: -np is 1"), default=1)
    add("--kv-unified-per-slot", dest="slot_tokens", type=int)
    add("-b", dest="batch", type=bounded(1, MAX_TOKENS))
    add("-ub", dest="micro_batch", type=bounded(1, MAX_TOKENS))
    add("--cache-ram", type=_only(0, "prompts are kept in no bounded memory: --cache-ram is 0"))
    add("--timeout", type=_deadline)
    add("--embeddings", dest="embeds", action="store_true")
    add("-ngl", dest="gpu_layers", type=bounded(0, 100_000), default=-1)
    add("-fa", dest="flash_attention", choices=("on", "off"), default="off")
    add("-ctk", dest="cache_type_k", choices=tuple(CACHE_TYPES))
    add("-ctv", dest="cache_type_v", choices=tuple(CACHE_TYPES))
    add("--fit", choices=("off",))
    add("--split-mode", choices=tuple(SPLIT_MODES), default="layer")
    add("--main-gpu", type=bounded(0, 1024), default=0)
    add("--tensor-split", type=_shares)
    add("--rope-scaling", choices=tuple(ROPE_SCALINGS))
    add("--rope-scale", type=_factor)
    add("--yarn-orig-ctx", type=bounded(0, MAX_TOKENS), default=0)
    add("--no-kv-offload", action="store_true")
    for flag, field in _FRACTIONS.items():
        add(flag, type=float, dest=field, default=argparse.SUPPRESS)
    for flag in (*_TRUE_ANYWAY, "--offline"):
        add(flag, action="store_true")
    for flag, sentence in _REFUSED.items():
        add(flag, nargs="?", const="", type=_never(sentence))
    return parser


def _only(value: int, sentence: str) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) != value:
            raise argparse.ArgumentTypeError(sentence)
        return value

    return number


def _deadline(text: str) -> int:
    if int(text) < NO_DEADLINE_SECONDS:
        raise argparse.ArgumentTypeError("there is no deadline: --timeout is a day or more")
    return int(text)


def _never(sentence: str) -> Callable[[str], NoReturn]:
    def refuse(_: str) -> NoReturn:
        raise argparse.ArgumentTypeError(sentence)

    return refuse


def _factor(text: str) -> float:
    """What `--rope-scale` stretches the context by."""
    factor = float(text)
    if not factor > 0:
        raise ValueError
    return factor


def _shares(text: str) -> list[float]:
    """How much of the model each device gets; the library has room for 16 of them."""
    shares = [float(share) for share in text.split(",")]
    if len(shares) > 16:
        raise ValueError
    return shares
