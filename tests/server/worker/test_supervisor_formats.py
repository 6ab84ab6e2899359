"""Serving pods of ONNX models, and of weights with a projector that their engine refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from support.worker import worker


@pytest.mark.parametrize(
    ("model", "engine", "mode", "options", "path", "question"),
    [
        (
            "mean",
            {},
            "embed",
            {"input_count", "input_characters", "dimensions", "input_tokens"},
            "/v1/embeddings",
            {"input": ["red", "blue"]},
        ),
        (
            "pipeline",
            {"steps": 2, "guidancePercent": 300},
            "generate-image",
            {"input_characters", "width", "height", "seed"},
            "/v1/images/generations",
            {"prompt": "a cat", "size": "32x32"},
        ),
    ],
)
def test_an_onnx_pod(
    onnx_models: Path,
    tmp_path: Path,
    model: str,
    engine: dict[str, Any],
    mode: str,
    options: set[str],
    path: str,
    question: dict[str, Any],
) -> None:
    with worker(tmp_path, onnx_models / model, runtime="onnxruntime", engine=engine) as pod:
        told = pod.until_state("ready")
        assert told["mode"] == mode
        assert told["file"]["format"] == "onnx"
        assert told["runtime"]["build"].startswith("onnxruntime ")
        assert told["runtime"]["device"] == "cpu", "by the session's own account"
        assert {limit["option"] for limit in told["runtime"]["limits"]} == options
        assert pod.ask_engine(path, question).status_code == 200
        assert pod.ask_engine(f"{path}/check", question).json() == {"fits": True}
        assert pod.ask_engine(f"{path}/check", {}).status_code == 400
        assert pod.terminate()[0] == 0
        assert "Traceback" not in pod.log


def test_a_device_that_is_not_there(onnx_models: Path, tmp_path: Path) -> None:
    engine = {"device": "cuda"}
    with worker(tmp_path, onnx_models / "mean", runtime="onnxruntime", engine=engine) as pod:
        told = pod.until_state("failed")
        assert told["error"]["reason"] == "EngineFailed"
        assert "CUDA was asked for" in told["error"]["message"]
        assert told["runtime"] is None


@pytest.mark.parametrize(
    ("projector", "words", "reason"),
    [
        (True, "mtmd: failed to load mmproj: it wants another width", "ProjectorMismatch"),
        (True, "srv: failed to load the model", "EngineFailed"),
        (False, "mtmd: failed to load mmproj: it wants another width", "EngineFailed"),
    ],
)
def test_an_engine_that_ends_over_its_projector_says_so(
    tiny_models: Path, tmp_path: Path, projector: bool, words: str, reason: str
) -> None:
    program = tmp_path / "llama-server"
    said = f"0.00.001 E {words}"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint({said!r})\nsys.exit(1)\n")
    program.chmod(0o755)
    spec = {"projector": {"path": str(tiny_models / "tiny-projector.gguf")}} if projector else {}
    environ = {"LLAMA_SERVER_BIN": str(program)}
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", environ=environ, **spec) as pod:
        error = pod.until_state("failed")["error"]
    assert error["reason"] == reason
    assert words.partition(": ")[2] in error["message"]
