"""The command line of the ONNX engine, from what was asked for. Pure."""

from __future__ import annotations

from pumas_crds.vocabulary import EngineMode
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.engine import EngineProgram
from pumas_server.worker.launch import LaunchSettings, select_slots


def build_onnx_command(
    engine: EngineProgram, spec: WorkerSpec, mode: EngineMode, settings: LaunchSettings
) -> list[str]:
    """Program and arguments of the engine."""
    command = [*engine.command, "-m", spec.weights_file(settings.models), "-a", spec.alias]
    command += ["--host", settings.host, "--port", str(settings.port)]
    command += ["--api-key-file", str(settings.key_file), "--mode", mode]
    command += ["-t", str(settings.cpus), "-np", str(select_slots(spec, mode))]
    command += ["--device", spec.engine.device or "auto"]
    if spec.engine.steps is not None:
        command += ["--steps", str(spec.engine.steps)]
    if spec.engine.guidance_percent is not None:
        command += ["--guidance", str(spec.engine.guidance_percent / 100)]
    return command
