"""What an engine with limits is not started for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pumas_crds.engine import Engine
from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import EngineMode, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.engine import LLAMA_CPP_PYTHON_LIMITS, EngineProgram
from pumas_server.worker.engine_limits import EngineLimits
from pumas_server.worker.launch import LaunchSettings, build_engine_command

LIMITS = EngineLimits("small", frozenset({EngineMode.EMBED}), slots=2, flags={"-x": "has no x"})
SETTINGS = LaunchSettings("127.0.0.1", 8080, Path("/run/key"), cpus=1)


@pytest.mark.parametrize("mode", EngineMode)
def test_a_mode_that_it_has_not_is_refused_by_name(mode: EngineMode) -> None:
    refusal = LIMITS.refuse_mode(mode)
    if mode is EngineMode.EMBED:
        assert refusal is None
    else:
        assert refusal == f"The engine small has no mode {mode}; the default engine has."


@pytest.mark.parametrize(
    ("command", "refusal"),
    [
        ([], None),
        (["-np", "2", "-fa", "on"], None),
        (
            ["-m", "f", "-np", "3"],
            "The engine small works on no more calls at once than 2:"
            " engine.parallel of 3 cannot be promised.",
        ),
        (["-x", "1"], "The engine small has no x."),
        (["-m", "f", "-x"], "The engine small has no x."),
    ],
)
def test_a_flag_or_a_value_that_it_has_not(command: list[str], refusal: str | None) -> None:
    assert LIMITS.refuse_command(command) == refusal


def refusal(
    mode: EngineMode = EngineMode.GENERATE, file: FileFacts | None = None, **asked: Any
) -> str | None:
    projector = asked.pop("projector", None)
    spec = WorkerSpec(
        alias="tiny",
        runtime=Runtime.LLAMA_CPP,
        source=Source(path="/models/a.gguf"),
        projector=projector,
        engine=Engine(**asked),
    )
    program = EngineProgram(("engine",), limits=LLAMA_CPP_PYTHON_LIMITS)
    command = build_engine_command(
        program, spec, mode, file or FileFacts(architecture="llama"), SETTINGS
    )
    return LLAMA_CPP_PYTHON_LIMITS.refuse_command(command)


def test_what_the_third_engine_is_started_with() -> None:
    assert refusal() is None
    assert refusal(parallel=1, flash_attention="on", cache_type_k="q8_0", gpu_layers=3) is None
    assert refusal(EngineMode.EMBED, FileFacts(architecture="bert", pooling="cls")) is None


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"parallel": 2}, "engine.parallel of 2"),
        ({"flash_attention": "auto"}, "flashAttention"),
        ({"chat_template": "{{ messages }}"}, "chatTemplate"),
        ({"extra_args": ["--split-mode=tensor"]}, "--split-mode=tensor"),
        ({"projector": {"path": "/models/p.gguf"}}, "projector"),
    ],
)
def test_what_it_is_not_started_with(asked: dict[str, Any], words: str) -> None:
    told = refusal(**asked)
    assert told is not None
    assert words in told
    assert told.startswith("The engine llama-cpp-python ")
    assert told.endswith(".")


def test_an_embedder_that_states_no_pooling() -> None:
    told = refusal(EngineMode.EMBED, FileFacts(architecture="llama"))
    assert told is not None
    assert "pooling" in told
