"""The ONNX engine's command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pumas_crds.engine import Engine
from pumas_crds.source import Source
from pumas_crds.vocabulary import EngineMode, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.engine import EngineProgram
from pumas_server.worker.launch import LaunchSettings
from pumas_server.worker.launch_onnx import build_onnx_command

SETTINGS = LaunchSettings("10.0.0.7", 8080, Path("/run/pumas/key/engine-key"), cpus=3)


def command(mode: EngineMode, source: Source | None = None, **engine: Any) -> list[str]:
    spec = WorkerSpec(
        alias="team/embedder",
        runtime=Runtime.ONNX_RUNTIME,
        source=source or Source(path="/models/embedder"),
        engine=Engine(**engine),
    )
    return build_onnx_command(EngineProgram(("python", "engine")), spec, mode, SETTINGS)


def test_the_whole_command() -> None:
    assert command(EngineMode.EMBED) == [
        "python", "engine", "-m", "/models/embedder", "-a", "team/embedder",
        "--host", "10.0.0.7", "--port", "8080", "--api-key-file", "/run/pumas/key/engine-key",
        "--mode", "embed", "-t", "3", "-np", "1", "--device", "auto",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"device": "cuda"}, ["--device", "cuda"]),
        ({"device": "cpu"}, ["--device", "cpu"]),
        ({"parallel": 3}, ["-np", "3", "--device", "auto"]),
        ({"steps": 4}, ["--steps", "4"]),
        ({"guidance_percent": 750}, ["--guidance", "7.5"]),
        ({"guidance_percent": 0}, ["--guidance", "0.0"]),
        (
            {"steps": 1, "guidance_percent": 10_000},
            ["--device", "auto", "--steps", "1", "--guidance", "100.0"],
        ),
    ],
)
def test_each_setting_has_its_flag(settings: dict[str, Any], words: list[str]) -> None:
    assert command(EngineMode.GENERATE_IMAGE, **settings)[-len(words) :] == words


def test_what_is_not_asked_for_is_the_engines_to_choose() -> None:
    assert not {"--steps", "--guidance"} & {*command(EngineMode.GENERATE_IMAGE)}


def test_a_fetched_model_is_loaded_from_the_cache_with_its_folder() -> None:
    source = Source.model_validate({"huggingFace": {"repo": "o/m", "file": "onnx/model.onnx"}})
    built = command(EngineMode.EMBED, source)
    place = built[built.index("-m") + 1]
    assert place.startswith("/models/source-") and place.endswith("/onnx/model.onnx")
