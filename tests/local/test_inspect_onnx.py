"""`pumas inspect` of ONNX models: a folder, a graph, a pipeline, and what is none of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pumas_crds.vocabulary import EngineMode, Reason, Task
from pumas_local.inspect_file import inspect_file, render_json
from pumas_server.contract.descriptors import Available
from pumas_server.contract.words import Capability

C = Capability


@pytest.mark.parametrize(
    ("model", "mode", "offered"),
    [
        ("mean", EngineMode.EMBED, {C.TEXT_EMBEDDING}),
        ("rerank", EngineMode.RERANK, {C.RERANK}),
        ("clip", EngineMode.EMBED, {C.TEXT_EMBEDDING, C.MULTIMODAL_EMBEDDING}),
        ("pipeline", EngineMode.GENERATE_IMAGE, {C.IMAGE_GENERATION}),
    ],
)
def test_onnx_models(
    onnx_models: Path, model: str, mode: EngineMode, offered: set[Capability]
) -> None:
    report = inspect_file(onnx_models / model, None)
    assert report.error is None and report.choice is not None
    assert (report.name, report.choice.mode) == (model, mode)
    available = {d.capability for d in report.descriptors if isinstance(d.availability, Available)}
    assert available == offered
    body = json.loads(render_json(report))
    assert body["file"]["format"] == "onnx"
    assert body["file"]["pipeline"] == ("StableDiffusionPipeline" if model == "pipeline" else None)


@pytest.mark.parametrize(
    ("model", "task", "reason", "sentence"),
    [
        ("mean", Task.TEXT_RANKING, Reason.MISSING_RANKING_HEAD, "mean: the task text-ranking"),
        ("mean", Task.TEXT_GENERATION, Reason.TASK_MISMATCH, "mean: "),
        ("pipeline", Task.FEATURE_EXTRACTION, Reason.TASK_MISMATCH, "pipeline: "),
    ],
)
def test_onnx_models_that_are_refused(
    onnx_models: Path, model: str, task: Task, reason: Reason, sentence: str
) -> None:
    report = inspect_file(onnx_models / model, task)
    assert report.error is not None and report.file is not None
    assert report.error.reason is reason
    assert report.error.message.startswith(sentence)


def test_a_graph_that_is_not_there(tmp_path: Path) -> None:
    report = inspect_file(tmp_path / "model.onnx", None)
    assert report.error is not None
    assert (report.error.reason, report.error.message) == (
        Reason.SOURCE_UNREACHABLE,
        "model.onnx cannot be read: No such file or directory",
    )
