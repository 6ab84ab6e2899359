"""The engine's command line, by the runtime that it is of. Pure."""

from __future__ import annotations

from typing import assert_never

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import EngineMode, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.engine import EngineProgram
from pumas_server.worker.launch import LaunchSettings, build_engine_command
from pumas_server.worker.launch_onnx import build_onnx_command


def build_command(
    engine: EngineProgram,
    spec: WorkerSpec,
    mode: EngineMode,
    file: FileFacts,
    settings: LaunchSettings,
) -> list[str]:
    """Program and arguments of the engine. `ValueError` for a runtime that has none."""
    match spec.runtime:
        case Runtime.LLAMA_CPP:
            return build_engine_command(engine, spec, mode, file, settings)
        case Runtime.ONNX_RUNTIME:
            return build_onnx_command(engine, spec, mode, settings)
        case Runtime.EXTERNAL:
            raise ValueError("an external server is not started")
        case _:
            assert_never(spec.runtime)
