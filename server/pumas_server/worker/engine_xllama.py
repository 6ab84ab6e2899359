"""The engine as a process around the `xllamacpp` wheel: llama-server's flags, its HTTP surface.

Started when no `llama-server` is at hand. It takes the flags that `launch.build_engine_command`
writes, `engine.WHEEL_ARGUMENTS` among them, and no others, each with the meaning that it has
there: an unknown flag exits 2, a file that cannot be loaded and a port that is taken exit 1, with
the reason on stderr in the engine's own ` E ` lines. Its start counts into every pod's, so it
imports nothing that it can do without.
"""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

import xllamacpp

_NUMBERS = {
    "-c": "n_ctx",
    "-np": "n_parallel",
    "--kv-unified-per-slot": "kv_unified_per_slot",
    "-b": "n_batch",
    "-ub": "n_ubatch",
    "-ngl": "n_gpu_layers",
    "--cache-ram": "cache_ram_mib",
    "--threads-http": "n_threads_http",
    "--port": "port",
    "--main-gpu": "main_gpu",
    "--cache-reuse": "n_cache_reuse",
    "--yarn-orig-ctx": "yarn_orig_ctx",
}
_FRACTIONS = {
    "--rope-freq-base": "rope_freq_base",
    "--rope-freq-scale": "rope_freq_scale",
    "--yarn-ext-factor": "yarn_ext_factor",
    "--yarn-attn-factor": "yarn_attn_factor",
    "--yarn-beta-slow": "yarn_beta_slow",
    "--yarn-beta-fast": "yarn_beta_fast",
}
_SWITCHES = {
    "-kvu": ("kv_unified", True),
    "--metrics": ("endpoint_metrics", True),
    "--slots": ("endpoint_slots", True),
    "--jinja": ("use_jinja", True),
    "--embeddings": ("embedding", True),
    "--offline": ("offline", True),
    "--no-context-shift": ("ctx_shift", False),
    "--no-ui": ("ui", False),
    "--swa-full": ("swa_full", True),
    "--no-kv-offload": ("no_kv_offload", True),
}
_WORDS = {
    "--split-mode": ("split_mode", ("none", "layer", "row", "tensor")),
    "--rope-scaling": ("rope_scaling_type", ("none", "linear", "yarn")),
    "--reasoning-format": ("reasoning_format", ("none", "auto", "deepseek", "deepseek-legacy")),
}
_ENUMERATIONS = {
    "split_mode": ("llama_split_mode", "LLAMA_SPLIT_MODE_"),
    "rope_scaling_type": ("llama_rope_scaling_type", "LLAMA_ROPE_SCALING_TYPE_"),
    "reasoning_format": ("common_reasoning_format", "COMMON_REASONING_FORMAT_"),
}
#: The wheel's arrays of one number a device have this length.
_DEVICES = 128
_ACCELERATORS = ("GGML_BACKEND_DEVICE_TYPE_GPU", "GGML_BACKEND_DEVICE_TYPE_IGPU")
_FLASH_ATTENTION = {"auto": "AUTO", "on": "ENABLED", "off": "DISABLED"}
_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_POOLING = ("none", "mean", "cls", "last", "rank")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="engine_xllama", allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for flag, field in _NUMBERS.items():
        parser.add_argument(flag, type=int, dest=field)
    for flag, field in _FRACTIONS.items():
        parser.add_argument(flag, type=float, dest=field)
    for flag, (field, words) in _WORDS.items():
        parser.add_argument(flag, choices=words, dest=field)
    parser.add_argument("--rope-scale", type=_factor, dest="rope_scale")
    parser.add_argument("--tensor-split", type=_shares, dest="tensor_split")
    for flag, (field, value) in _SWITCHES.items():
        parser.add_argument(flag, action="store_const", const=value, dest=field)
    parser.add_argument("-m", dest="file", required=True)
    parser.add_argument("-a", dest="alias")
    parser.add_argument("--host")
    parser.add_argument("--api-key-file")
    parser.add_argument("--chat-template", dest="chat_template")
    parser.add_argument("--mmproj", dest="projector")
    parser.add_argument("--timeout", type=int)
    parser.add_argument("-t", dest="threads", type=int)
    parser.add_argument("-fa", dest="flash_attention", choices=tuple(_FLASH_ATTENTION))
    parser.add_argument("-ctk", dest="cache_type_k", choices=_CACHE_TYPES)
    parser.add_argument("-ctv", dest="cache_type_v", choices=_CACHE_TYPES)
    parser.add_argument("--fit", choices=("on", "off"))
    parser.add_argument("--rerank", action="store_true")
    parser.add_argument("--pooling", choices=_POOLING)
    return parser


def _factor(text: str) -> float:
    """What `--rope-scale` stretches the context by."""
    factor = float(text)
    if factor <= 0:
        raise ValueError
    return factor


def _shares(text: str) -> list[float]:
    """How much of the model each device gets."""
    shares = [float(share) for share in text.split(",")]
    if len(shares) > _DEVICES:
        raise ValueError
    return shares


def build_params(arguments: list[str]) -> Any:
    """The wheel's parameters for these flags; what no flag sets keeps the engine's default."""
    given = vars(_parser().parse_args(arguments))
    params = xllamacpp.CommonParams()
    switched = (field for field, _ in _SWITCHES.values())
    for field in (*_NUMBERS.values(), *_FRACTIONS.values(), *switched):
        if field in given:
            setattr(params, field, given[field])
    if "fit" in given:
        params.fit_params = given["fit"] == "on"
    params.model.path = given["file"]
    if "projector" in given:
        params.mmproj.path = given["projector"]
    if "alias" in given:
        params.model_alias = {given["alias"]}
    if "host" in given:
        params.hostnames = [given["host"]]
    if "api_key_file" in given:
        with open(given["api_key_file"], encoding="utf-8") as lines:
            keys = [line.strip() for line in lines if not line.startswith("#")]
        params.api_keys = [key for key in keys if key]
    if "chat_template" in given:
        params.chat_template = given["chat_template"]
    if "timeout" in given:
        params.timeout_read = params.timeout_write = given["timeout"]
    if "threads" in given:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given["threads"]
    if "flash_attention" in given:
        word = _FLASH_ATTENTION[given["flash_attention"]]
        params.flash_attn_type = xllamacpp.llama_flash_attn_type[f"LLAMA_FLASH_ATTN_TYPE_{word}"]
    for field in ("cache_type_k", "cache_type_v"):
        if field in given:
            setattr(params, field, xllamacpp.ggml_type[f"GGML_TYPE_{given[field].upper()}"])
    for field, (kind, prefix) in _ENUMERATIONS.items():
        if field in given:
            word = given[field].upper().replace("-", "_")
            setattr(params, field, getattr(xllamacpp, kind)[prefix + word])
    if "rope_scale" in given:
        params.rope_freq_scale = 1 / given["rope_scale"]
    if "tensor_split" in given:
        shares = given["tensor_split"]
        params.tensor_split = [*shares, *([0.0] * (_DEVICES - len(shares)))]
    pooling = given.get("pooling")
    if "rerank" in given:
        params.embedding, pooling = True, "rank"
    if pooling is not None:
        params.pooling_type = xllamacpp.llama_pooling_type[f"LLAMA_POOLING_TYPE_{pooling.upper()}"]
    return params


def main(arguments: list[str]) -> int:
    """Serve until a signal ends the process."""
    try:
        params = build_params(arguments)
    except OSError as error:
        print(f"error: the file of API keys cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    if not any(device["type"].name in _ACCELERATORS for device in xllamacpp.get_device_info()):
        # The engine does not tell on which device it computes; where there is one only, we do.
        print("engine_xllama: device: cpu", file=sys.stderr, flush=True)
    # A Python handler would wait for the constructor below, for as long as a model loads.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        return 1  # it gives no reason; the engine has written it to stderr
    while server is not None:
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
