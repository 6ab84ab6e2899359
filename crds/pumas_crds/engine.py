"""Engine: settings of an engine, as a team or a profile writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, field_validator

from pumas_crds.resource import Closed, Rule, closed

CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]

#: Flags of the engine that change how it computes and nothing else: none of them names a file, an
#: address, a port or a key, and no value holds a slash.
EXTRA_ARGUMENT = (
    r"^--(swa-full|no-kv-offload"
    r"|(rope|yarn)-[a-z][a-z-]*=[A-Za-z0-9.+-]+"
    r"|(split-mode|main-gpu|tensor-split|reasoning-format|cache-reuse)=[A-Za-z0-9.,_-]+)$"
)
_EXTRA_RULE: Rule = (
    f"!has(self.extraArgs) || self.extraArgs.all(given, given.matches('{EXTRA_ARGUMENT}'))",
    "extraArgs takes --rope-*=, --yarn-*=, --split-mode=, --main-gpu=, --tensor-split=,"
    " --reasoning-format= and --cache-reuse= with a value, --swa-full and --no-kv-offload"
    " without one, and no others",
)


#: Which settings are of one runtime alone; `parallel` is of all.
LLAMA_CPP_SETTINGS = (
    "context_tokens",
    "gpu_layers",
    "flash_attention",
    "cache_type_k",
    "cache_type_v",
    "chat_template",
    "extra_args",
)
ONNX_RUNTIME_SETTINGS = ("device", "steps", "guidance_percent")
#: Settings of one model, of which no default for many makes sense.
IMAGE_SETTINGS = ("steps", "guidance_percent")


class Engine(Closed):
    """Settings of the engine. Everything unset is chosen by the profile, then by the file."""

    model_config = closed(_EXTRA_RULE)

    context_tokens: Annotated[int, Field(ge=64, le=16_777_216)] | None = None
    """Context of one slot. Default: the smaller of the training context and 8192.

    More than the training context is lowered to it; `context_tokens` of discovery tells.
    """
    parallel: Annotated[int, Field(ge=1, le=256)] | None = None
    """Calls worked on at once: slots, each with the whole context. Default: 4 for text, else 1."""
    gpu_layers: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Layers to keep on the GPU. Default: as many as fit."""
    flash_attention: Literal["auto", "on", "off"] | None = None
    """Whether to use flash attention. Default: auto."""
    cache_type_k: CacheType | None = None
    """Type of the cached keys. Default: f16."""
    cache_type_v: CacheType | None = None
    """Type of the cached values. Default: f16."""
    chat_template: Annotated[str, Field(min_length=1, max_length=65_536)] | None = None
    """A chat template (Jinja) in place of the file's own."""
    device: Literal["auto", "cpu", "cuda"] | None = None
    """Where ONNX Runtime computes. Default: auto, which is CUDA where its session really gets it.

    With `cuda`, a model that does not get it is not served by the CPU instead.
    """
    steps: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Denoising steps of an image. Default: what suits the pipeline's scheduler."""
    guidance_percent: Annotated[int, Field(ge=0, le=10_000)] | None = None
    """How strictly an image follows its prompt, in hundredths of the pipeline's guidance scale.

    Default: what suits its scheduler, such as 750.
    """
    extra_args: (
        Annotated[
            tuple[Annotated[str, Field(min_length=3, max_length=128)], ...],
            Field(max_length=16),
        ]
        | None
    ) = None
    """Further flags of llama-server, each `--flag` or `--flag=value`, from a list of harmless ones.

    `--rope-*`, `--yarn-*`, `--swa-full`, `--no-kv-offload`, `--split-mode`, `--main-gpu`,
    `--tensor-split`, `--reasoning-format`, `--cache-reuse`. Replaces the profile's list.
    """

    @field_validator("extra_args")
    @classmethod
    def _harmless(cls, arguments: tuple[str, ...] | None) -> tuple[str, ...] | None:
        # With \Z for $, which in Python also stands before a line's end.
        pattern = EXTRA_ARGUMENT.removesuffix("$") + r"\Z"
        if any(not re.match(pattern, argument) for argument in arguments or ()):
            raise ValueError(_EXTRA_RULE[1])
        return arguments

    def without(self, names: Iterable[str]) -> Engine:
        """The same without those settings."""
        return Engine.model_validate(self.model_dump(exclude_none=True, exclude=set(names)))

    def gives(self, names: Iterable[str]) -> bool:
        """Whether any of those settings is given."""
        return any(getattr(self, name) is not None for name in names)
