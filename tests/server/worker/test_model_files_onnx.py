"""ONNX models that lie on this machine: what their files say, and what is wrong with them."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import Reason
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.model_files import check_files, read_onnx
from pumas_server.worker.onnx_model import read_local
from pumas_server.worker.weights import Refused

GRAPH = "onnx/model.onnx"


def check(path: Path, *, digest: bool = True, **spec: Any) -> FileFacts:
    told = {"alias": "a", "runtime": "onnxruntime", "source": {"path": str(path)}, **spec}
    return check_files(WorkerSpec.model_validate(told), "/models", _quiet, digest=digest)


def _quiet(_: str) -> None:
    """Nobody listens."""


def refusal(path: Path, **spec: Any) -> tuple[Reason, str]:
    with pytest.raises(Refused) as told:
        check(path, **spec)
    assert str(path.parent) not in told.value.fault.message
    return told.value.fault.reason, told.value.fault.message


@pytest.mark.parametrize("model", ["mean", "rerank", "clip", "pipeline"])
def test_a_folder_is_what_its_files_say(onnx_models: Path, model: str) -> None:
    assert check(onnx_models / model) == read_onnx(onnx_models / model)
    assert read_onnx(onnx_models / model) == read_local(onnx_models / model)


def test_the_digest_is_of_the_graph(onnx_models: Path) -> None:
    graph = onnx_models / "mean" / GRAPH
    digest = hashlib.sha256(graph.read_bytes()).hexdigest()
    for path in (onnx_models / "mean", graph):
        assert check(path, sha256=digest).digest == f"sha256:{digest}"
        assert check(path, sha256=digest, digest=False).digest == ""
        reason, message = refusal(path, sha256="0" * 64)
        assert reason is Reason.DIGEST_MISMATCH
        assert message.startswith(f"model.onnx has sha256 {digest[:12]}…, not 000000000000…")


@pytest.mark.parametrize("name", ["", "model_index.json"])
def test_a_pipeline_has_no_digest(onnx_models: Path, name: str) -> None:
    reason, message = refusal(onnx_models / "pipeline" / name, sha256="0" * 64)
    assert reason is Reason.NOT_IMPLEMENTED
    assert message == "a pipeline is many files, so it has no sha256 to check"


@pytest.mark.parametrize(
    ("model", "task", "reason"),
    [
        ("mean", "text-ranking", Reason.MISSING_RANKING_HEAD),
        ("mean", "text-to-image", Reason.TASK_MISMATCH),
        ("pipeline", "feature-extraction", Reason.TASK_MISMATCH),
        ("mean", "text-generation", Reason.TASK_MISMATCH),
    ],
)
def test_a_task_that_the_files_cannot_do(
    onnx_models: Path, model: str, task: str, reason: Reason
) -> None:
    assert refusal(onnx_models / model, task=task)[0] is reason


@pytest.mark.parametrize("settings", [{"steps": 4}, {"guidancePercent": 100}])
def test_settings_of_images_are_for_images(onnx_models: Path, settings: dict[str, int]) -> None:
    assert check(onnx_models / "pipeline", engine=settings).pipeline is not None
    reason, message = refusal(onnx_models / "mean", engine=settings)
    assert reason is Reason.NOT_IMPLEMENTED
    assert message.endswith("this model is here to embed")


def test_what_is_wrong_is_told_with_the_models_name(onnx_models: Path, tmp_path: Path) -> None:
    assert refusal(tmp_path / "absent") == (
        Reason.SOURCE_UNREACHABLE,
        "absent cannot be read: No such file or directory",
    )
    (tmp_path / "empty").mkdir()
    reason, message = refusal(tmp_path / "empty")
    assert reason is Reason.NOT_A_MODEL
    assert message.startswith("empty: the model's folder has none of model.onnx, ")
    folder = Path(shutil.copytree(onnx_models / "mean", tmp_path / "mean"))
    whole = (folder / GRAPH).read_bytes()
    (folder / GRAPH).write_bytes(whole[:-100])
    reason, message = refusal(folder)
    assert reason is Reason.TRUNCATED
    assert message.startswith("mean: model.onnx: the file ends after ")
    (folder / GRAPH).unlink()
    os.mkfifo(folder / GRAPH)
    assert refusal(folder / GRAPH)[1] == (f"model.onnx: the model's {GRAPH} is not a regular file")


def test_a_name_that_wants_to_forge_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b[31m\npumas: all is well"
    folder.mkdir()
    with pytest.raises(Refused) as told:
        read_onnx(folder)
    assert told.value.fault.message.isprintable()


def test_gguf_files_are_theirs(tiny_models: Path) -> None:
    path = tiny_models / "tiny-embed.gguf"
    assert check(path, runtime="llama.cpp").architecture == "bert"
    reason, message = refusal(path)
    assert reason is Reason.NOT_A_MODEL
    assert message.startswith("tiny-embed.gguf: an ONNX model is named by its folder")
