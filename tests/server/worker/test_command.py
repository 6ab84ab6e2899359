"""Which engine's command line a model gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import EngineMode, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.command import build_command
from pumas_server.worker.engine import EngineProgram
from pumas_server.worker.launch import LaunchSettings, build_engine_command
from pumas_server.worker.launch_onnx import build_onnx_command

SETTINGS = LaunchSettings("127.0.0.1", 8080, Path("/key"), cpus=1)
PROGRAM = EngineProgram(("engine",))
FILE = FileFacts(architecture="tiny")


def spec(runtime: Runtime) -> WorkerSpec:
    return WorkerSpec(alias="a", runtime=runtime, source=Source(path="/m"))


def test_each_runtime_has_its_own() -> None:
    mode = EngineMode.EMBED
    llama, onnx = spec(Runtime.LLAMA_CPP), spec(Runtime.ONNX_RUNTIME)
    assert build_command(PROGRAM, llama, mode, FILE, SETTINGS) == build_engine_command(
        PROGRAM, llama, mode, FILE, SETTINGS
    )
    assert build_command(PROGRAM, onnx, mode, FILE, SETTINGS) == build_onnx_command(
        PROGRAM, onnx, mode, SETTINGS
    )


def test_an_external_server_has_none() -> None:
    with pytest.raises(ValueError, match="not started"):
        build_command(PROGRAM, spec(Runtime.EXTERNAL), EngineMode.EMBED, FILE, SETTINGS)


def test_llama_cpp_makes_no_images() -> None:
    drawing = EngineMode.GENERATE_IMAGE
    with pytest.raises(ValueError, match="no images"):
        build_command(PROGRAM, spec(Runtime.LLAMA_CPP), drawing, FILE, SETTINGS)
