"""The engine's command line, from what was asked for and what the file says. Pure.

The numbers carry promises made elsewhere: every slot has the whole context that the descriptor
states (`-c N*P -kvu --kv-unified-per-slot N`; without the last, callers in one pool end each
other), an input that fits the context fits one batch (`-b N -ub N` where no token is generated),
and `/health` answers while every admitted call is open (`--threads-http`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import MODELS_DIR, EngineMode, pod_in_flight
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.engine import EngineProgram
from pumas_server.worker.engine_limits import EngineLimits

DEFAULT_CONTEXT_TOKENS = 8192
DEFAULT_SLOTS = 4
PROMPT_CACHE_MIB = 512
"""Prompts kept for reuse; the engine's own default of 8 GiB ends pods by their memory limit."""
PROBE_THREADS = 8
NO_DEADLINE_SECONDS = 365 * 86_400
"""The engine's read and write deadline cannot be switched off: a year stands for none."""


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """What the place, not the model, decides about an engine."""

    host: str
    port: int
    key_file: Path
    cpus: int
    models: str = MODELS_DIR
    """Where fetched files are."""
    device: bool = False
    """Whether there may be a device beside the CPUs."""


def select_context_tokens(spec: WorkerSpec, file: FileFacts) -> int:
    """Context of one slot: as asked, by default 8192, never more than the model was trained for."""
    wanted = spec.engine.context_tokens or DEFAULT_CONTEXT_TOKENS
    return min(wanted, file.context_tokens) if file.context_tokens else wanted


def describe_less_context(spec: WorkerSpec, file: FileFacts) -> str | None:
    """A sentence when slots get less context than was asked for; else None."""
    wanted, given = spec.engine.context_tokens, select_context_tokens(spec, file)
    if wanted is None or given >= wanted:
        return None
    return f"engine.contextTokens is {wanted}; the model was trained with {given}, which it gets."


def select_slots(spec: WorkerSpec, mode: EngineMode, limits: EngineLimits | None = None) -> int:
    """Calls that the engine works on at once: as asked, else as many as suit it."""
    suits = DEFAULT_SLOTS if mode is EngineMode.GENERATE else 1
    return spec.engine.parallel or (min(suits, limits.slots) if limits else suits)


def select_cpus(schedulable: int, quota: str) -> int:
    """Threads to compute with: the CPUs we may run on, within a cgroup's `cpu.max` ("" is none)."""
    limit, _, period = quota.partition(" ")
    if limit.strip().isdigit() and period.strip().isdigit() and int(period) > 0:
        return max(1, min(schedulable, -(-int(limit) // int(period))))
    return max(1, schedulable)


def select_refused_argument(engine: EngineProgram, spec: WorkerSpec) -> str | None:
    """A flag of `engine.extraArgs` that this program does not take, or None."""
    if engine.extra_arguments is None:
        return None
    flags = [argument.partition("=")[0] for argument in spec.engine.extra_args or ()]
    return next((flag for flag in flags if flag not in engine.extra_arguments), None)


def build_engine_command(
    engine: EngineProgram,
    spec: WorkerSpec,
    mode: EngineMode,
    file: FileFacts,
    settings: LaunchSettings,
) -> list[str]:
    """Program and arguments of the engine."""
    tokens = select_context_tokens(spec, file)
    limits = engine.limits
    slots = select_slots(spec, mode, limits)
    generates = mode is EngineMode.GENERATE
    keeps = limits is None or limits.prompt_cache
    command = [*engine.command, "-m", spec.weights_file(settings.models)]
    command += ["-a", spec.alias]
    command += ["--host", settings.host, "--port", str(settings.port)]
    command += ["--api-key-file", str(settings.key_file)]
    command += ["-c", str(tokens * slots), "-np", str(slots)]
    command += ["-kvu", "--kv-unified-per-slot", str(tokens)]
    if not generates:
        command += ["-b", str(tokens), "-ub", str(tokens)]
    command += ["--cache-ram", str(PROMPT_CACHE_MIB if generates and keeps else 0)]
    command += _mode_flags(mode, file)
    if (projector := spec.projector_file(settings.models)) is not None:
        command += ["--mmproj", projector]
    command += ["--metrics", "--slots", "--jinja", "--no-context-shift", "--no-ui", "--offline"]
    command += ["--threads-http", str(pod_in_flight(slots) + PROBE_THREADS)]
    command += ["--timeout", str(NO_DEADLINE_SECONDS), "-t", str(settings.cpus)]
    if not settings.device:
        # Fitting to device memory loads the file an extra time; without a device that is half of
        # the time to the first token, for nothing.
        command += ["--fit", "off"]
    return command + _user_flags(spec)


def _mode_flags(mode: EngineMode, file: FileFacts) -> list[str]:
    match mode:
        case EngineMode.GENERATE | EngineMode.DECIDE:
            return []
        case EngineMode.GENERATE_IMAGE:
            raise ValueError("llama.cpp makes no images")
        case EngineMode.RERANK:
            return ["--rerank"]
        case EngineMode.EMBED:
            # Without a pooling that makes one vector of many, `/v1/embeddings` refuses every call.
            says = file.pooling in ("mean", "cls", "last")
            return ["--embeddings"] if says else ["--embeddings", "--pooling", "mean"]
        case _:
            assert_never(mode)


def _user_flags(spec: WorkerSpec) -> list[str]:
    wanted = spec.engine
    pairs = (
        ("-ngl", wanted.gpu_layers),
        ("-fa", wanted.flash_attention),
        ("-ctk", wanted.cache_type_k),
        ("-ctv", wanted.cache_type_v),
        ("--chat-template", wanted.chat_template),
    )
    said = [word for flag, value in pairs if value is not None for word in (flag, str(value))]
    for argument in wanted.extra_args or ():
        flag, _, value = argument.partition("=")
        said += [flag, value] if value else [flag]
    return said
