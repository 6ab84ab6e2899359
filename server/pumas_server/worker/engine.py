"""Which program is the engine: one that the image or the user brings, else the wheel we depend on.

Looked for in this order: `$LLAMA_SERVER_BIN`, `llama-server` on PATH, `engine_xllama`. All take
the same flags and speak the same HTTP dialect, so that nothing after this module asks which it is.
`PUMAS_ENGINE=llama-cpp-python` comes before them: an engine that does less, and states its limits.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import assert_never

from pumas_crds.vocabulary import EngineMode, Runtime, Variable
from pumas_server.worker.engine_limits import EngineLimits

#: What of the flags that `engine.extraArgs` allows the wheel has a field for.
WHEEL_ARGUMENTS = frozenset(
    {
        "--cache-reuse",
        "--main-gpu",
        "--no-kv-offload",
        "--reasoning-format",
        "--rope-freq-base",
        "--rope-freq-scale",
        "--rope-scale",
        "--rope-scaling",
        "--split-mode",
        "--swa-full",
        "--tensor-split",
        "--yarn-attn-factor",
        "--yarn-beta-fast",
        "--yarn-beta-slow",
        "--yarn-ext-factor",
        "--yarn-orig-ctx",
    }
)

LLAMA_CPP_PYTHON = "llama-cpp-python"
#: The flags of `engine.extraArgs` that its settings have a field for.
LLAMA_CPP_PYTHON_ARGUMENTS = frozenset(
    {
        "--main-gpu",
        "--no-kv-offload",
        "--rope-freq-base",
        "--rope-freq-scale",
        "--rope-scale",
        "--rope-scaling",
        "--split-mode",
        "--tensor-split",
        "--yarn-attn-factor",
        "--yarn-beta-fast",
        "--yarn-beta-slow",
        "--yarn-ext-factor",
        "--yarn-orig-ctx",
    }
)
LLAMA_CPP_PYTHON_LIMITS = EngineLimits(
    engine=LLAMA_CPP_PYTHON,
    modes=frozenset({EngineMode.GENERATE, EngineMode.EMBED}),
    slots=1,
    flags={
        "--mmproj": "takes no projector",
        "--chat-template": "takes no engine.chatTemplate: it uses the file's",
        "--pooling": "embeds only with the pooling that the file states, and this one states none",
        "-fa auto": "takes engine.flashAttention as on or off",
        "--split-mode tensor": "does not take --split-mode=tensor of engine.extraArgs",
    },
)

#: A module of ours as a program. -P: the working directory is not searched for modules.
OUR_PYTHON = (sys.executable, "-P", "-m")


class EngineNotFound(Exception):
    """The engine that the environment names cannot be run. The sentence names no value."""

    def __init__(self, sentence: str, named: str = "") -> None:
        super().__init__(sentence)
        self.named = named
        """The value, for the eyes of whoever set it."""


@dataclass(frozen=True, slots=True)
class EngineProgram:
    """How an engine process is started."""

    command: tuple[str, ...]
    """Program and leading arguments; the engine's flags follow."""
    build: str = ""
    """Its build identity, for a program whose own answer is a placeholder."""
    extra_arguments: frozenset[str] | None = None
    """Which flags of `engine.extraArgs` it takes; None: it says so itself."""
    limits: EngineLimits | None = None
    """What it cannot do of the rest; None: it can do all."""


def find_engine(environ: Mapping[str, str], runtime: Runtime) -> EngineProgram:
    """The program to run on this machine; `EngineNotFound` when the named one cannot be run."""
    match runtime:
        case Runtime.LLAMA_CPP:
            return _find_llama(environ)
        case Runtime.ONNX_RUNTIME:
            return EngineProgram((*OUR_PYTHON, "pumas_server.worker.onnx"))
        case Runtime.EXTERNAL:
            raise EngineNotFound("an external server is no engine of ours")
        case _:
            assert_never(runtime)


def _find_llama(environ: Mapping[str, str]) -> EngineProgram:
    match environ.get(Variable.ENGINE, ""):
        case "":
            return _find_default(environ)
        case "llama-cpp-python":
            return _find_llama_cpp_python()
        case other:
            raise EngineNotFound(
                f"{Variable.ENGINE} names no engine: set it to {LLAMA_CPP_PYTHON}, or not at all",
                other,
            )


def _find_llama_cpp_python() -> EngineProgram:
    try:
        build = f"{LLAMA_CPP_PYTHON} {version(LLAMA_CPP_PYTHON)}"
    except PackageNotFoundError:
        raise EngineNotFound(
            f"{Variable.ENGINE} names {LLAMA_CPP_PYTHON}, which is not installed here:"
            f" pip install '.[{LLAMA_CPP_PYTHON}]' in a checkout installs it"
        ) from None
    return EngineProgram(
        (*OUR_PYTHON, "pumas_server.worker.llama_cpp_python"),
        build,
        LLAMA_CPP_PYTHON_ARGUMENTS,
        LLAMA_CPP_PYTHON_LIMITS,
    )


def _find_default(environ: Mapping[str, str]) -> EngineProgram:
    named = environ.get("LLAMA_SERVER_BIN", "")
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise EngineNotFound("LLAMA_SERVER_BIN names no program that can be run here", named)
        return EngineProgram((named,))
    found = shutil.which("llama-server", path=environ.get("PATH", ""))
    if found:
        return EngineProgram((found,))
    command = (*OUR_PYTHON, "pumas_server.worker.engine_xllama")
    build = f"xllamacpp {version('xllamacpp')}"
    return EngineProgram(command, build, WHEEL_ARGUMENTS)
