"""The weights file on disk: every way it can be unfit, with its reason and without its path."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pumas_crds.facts import Fault, FileFacts, Inspection
from pumas_crds.source import Source
from pumas_crds.vocabulary import TERMINATION_LOG, Reason, Runtime, Task, Variable
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker import weights
from pumas_server.worker.weights import (
    Refused,
    check_projector,
    check_weights,
    read_facts,
    report,
)


def spec_of(path: Path, *, sha256: str | None = None, task: Task | None = None) -> WorkerSpec:
    return WorkerSpec(
        alias="tiny",
        runtime=Runtime.LLAMA_CPP,
        source=Source(path=str(path)),
        sha256=sha256,
        task=task,
    )


def silent(sentence: str) -> None:
    raise AssertionError(f"said without cause: {sentence}")


def refusal_of(spec: WorkerSpec) -> Fault:
    with pytest.raises(Refused) as caught:
        check_weights(spec, Path(spec.source.path or ""), silent)
    fault = caught.value.fault
    assert str(Path(spec.source.path or "").parent) not in fault.message
    assert "/" not in fault.message
    return fault


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _missing(path: Path) -> None:
    assert not path.exists()


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _folder(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _empty(path: Path) -> None:
    path.touch()


def _text(path: Path) -> None:
    path.write_text("<html>Sign in to download this model</html>\n")


@pytest.mark.parametrize(
    ("make", "reason", "message"),
    [
        (_missing, Reason.SOURCE_UNREACHABLE, "the weights file w.gguf is not there"),
        (_dangling, Reason.SOURCE_UNREACHABLE, "the weights file w.gguf is not there"),
        (_folder, Reason.NOT_A_MODEL, "w.gguf is a folder, not a weights file"),
        (_pipe, Reason.NOT_A_MODEL, "w.gguf is not a regular file"),
        (_empty, Reason.NOT_A_MODEL, "w.gguf is empty"),
        (_text, Reason.NOT_A_MODEL, "w.gguf: the file does not begin as a GGUF file does"),
    ],
)
def test_what_is_no_weights_file(
    tmp_path: Path, make: Callable[[Path], None], reason: Reason, message: str
) -> None:
    path = tmp_path / "w.gguf"
    make(path)
    assert refusal_of(spec_of(path)) == Fault(reason=reason, message=message)


@pytest.mark.parametrize("file", ["model.onnx", "onnx/model.onnx", "model_index.json"])
def test_a_folder_with_an_onnx_model_is_told_its_runtime(tmp_path: Path, file: str) -> None:
    path = tmp_path / "model" / file
    path.parent.mkdir(parents=True)
    path.touch()
    assert refusal_of(spec_of(tmp_path / "model")).message == (
        "model is a folder, not a weights file; it holds an ONNX model, which"
        " spec.runtime: onnxruntime serves"
    )


@pytest.mark.parametrize(
    ("below", "hint"), [("w.gguf", ""), ("~/w.gguf", ", where ~ is a name like any other")]
)
def test_whoever_named_a_file_is_told_where_it_was_looked_for(
    tmp_path: Path, below: str, hint: str
) -> None:
    with pytest.raises(Refused) as refusal:
        read_facts(tmp_path / below)
    message = "the weights file w.gguf is not there"
    assert refusal.value.fault.message == message
    assert refusal.value.sentence == f"{message} (looked for at {tmp_path / below}{hint})"


def test_a_missing_projector_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"^the projector p\.gguf is not there$"):
        check_projector(Source(path="p.gguf"), tmp_path / "p.gguf", FileFacts(architecture="tiny"))


def test_a_file_that_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fault = refusal_of(spec_of(tmp_path / "file" / "w.gguf"))
    assert fault.reason is Reason.SOURCE_UNREACHABLE
    assert fault.message == "the weights file w.gguf cannot be read: Not a directory"


def test_a_file_cut_off_at_half(tiny_models: Path, tmp_path: Path) -> None:
    whole = (tiny_models / "tiny-chat.gguf").read_bytes()
    path = tmp_path / "half.gguf"
    path.write_bytes(whole[: len(whole) // 2])
    fault = refusal_of(spec_of(path))
    assert fault.reason is Reason.TRUNCATED
    assert fault.message == (
        f"half.gguf: the file has {len(whole) // 2} bytes, but its tensors need {len(whole)}"
    )


def test_a_good_file_has_facts(tiny_models: Path) -> None:
    path = tiny_models / "tiny-chat.gguf"
    facts = check_weights(spec_of(path), path, silent)
    assert (facts.architecture, facts.size_bytes) == ("llama", path.stat().st_size)
    assert facts.digest == ""


def test_a_link_to_a_good_file_is_followed(tiny_models: Path, tmp_path: Path) -> None:
    link = tmp_path / "linked.gguf"
    link.symlink_to(tiny_models / "tiny-chat.gguf")
    assert check_weights(spec_of(link), link, silent).name == "tiny-chat"


def test_the_right_digest_is_a_fact(tiny_models: Path) -> None:
    path = tiny_models / "tiny-chat.gguf"
    digest = digest_of(path)
    assert check_weights(spec_of(path, sha256=digest), path, silent).digest == f"sha256:{digest}"


def test_a_wrong_digest_is_named_beside_the_right_one(tiny_models: Path, tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    shutil.copy(tiny_models / "tiny-chat.gguf", path)
    expected = digest_of(path)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x55")
    fault = refusal_of(spec_of(path, sha256=expected))
    assert fault.reason is Reason.DIGEST_MISMATCH
    assert expected[:12] in fault.message
    assert digest_of(path)[:12] in fault.message


def test_the_digest_of_more_than_one_block_and_its_progress(
    tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.gguf"
    path.write_bytes((tiny_models / "tiny-chat.gguf").read_bytes() + bytes(2 << 20))
    monkeypatch.setattr(weights, "PROGRESS_SECONDS", 0.0)
    said: list[str] = []
    facts = check_weights(spec_of(path, sha256=digest_of(path)), path, said.append)
    assert facts.digest == f"sha256:{digest_of(path)}"
    assert said[0] == "long.gguf: sha256 of 1 of 2 MiB computed"
    assert len(said) == 3


def test_a_file_that_cannot_do_its_task(tiny_models: Path) -> None:
    fault = refusal_of(spec_of(tiny_models / "tiny-embed.gguf", task=Task.TEXT_GENERATION))
    assert fault.reason is Reason.TASK_MISMATCH
    assert fault.message.startswith("tiny-embed.gguf: the task text-generation is recorded")


def test_a_reranker_without_its_head(tiny_models: Path) -> None:
    fault = refusal_of(spec_of(tiny_models / "tiny-rerank-headless.gguf"))
    assert fault.reason is Reason.MISSING_RANKING_HEAD


def test_the_longest_report_fits_a_termination_message(tmp_path: Path) -> None:
    wide = "\N{MUSICAL SYMBOL G CLEF}"
    words = dict.fromkeys(("architecture", "quantisation", "tokenizer", "decision"), wide * 128)
    facts = FileFacts(**words, name=wide * 256, digest="sha256:" + "f" * 64, pooling="unknown")  # type: ignore[arg-type]
    report(Inspection(file=facts), tmp_path)
    written = (tmp_path / TERMINATION_LOG).read_bytes()
    assert len(written) <= 4096
    assert Inspection.model_validate_json(written).file == facts


def test_a_report_that_would_be_cut_off_is_an_error(tmp_path: Path) -> None:
    fault = Fault(reason=Reason.NOT_A_MODEL, message="\N{MUSICAL SYMBOL G CLEF}" * 1024)
    with pytest.raises(ValueError, match="would be cut off"):
        report(Inspection(error=fault), tmp_path)


def fetch(worker: str, run: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pumas_server.worker", "fetch"],
        env={**os.environ, Variable.WORKER: worker, Variable.RUN: str(run)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_fetch_leaves_the_facts(tiny_models: Path, tmp_path: Path) -> None:
    spec = spec_of(tiny_models / "tiny-chat.gguf")
    done = fetch(spec.model_dump_json(by_alias=True), tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "tiny-chat.gguf can be served: llama, 115520 weights, most of them F32\n"
    )
    written = json.loads((tmp_path / TERMINATION_LOG).read_text())
    assert list(written) == ["file"]
    assert written["file"]["contextTokens"] == 2048


def test_fetch_leaves_the_fault(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "gone.gguf")
    done = fetch(spec.model_dump_json(by_alias=True), tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    message = "the weights file gone.gguf is not there"
    assert done.stderr == f"{message} (looked for at {tmp_path / 'gone.gguf'})\n"
    assert json.loads((tmp_path / TERMINATION_LOG).read_text()) == {
        "error": {"reason": "SourceUnreachable", "message": message}
    }


def test_fetch_refuses_a_spec_of_a_newer_release(tmp_path: Path) -> None:
    spec = spec_of(tmp_path / "w.gguf").model_dump(by_alias=True, mode="json")
    done = fetch(json.dumps({**spec, "novelty": str(tmp_path)}), tmp_path)
    assert done.returncode == 1
    written = json.loads((tmp_path / TERMINATION_LOG).read_text())
    assert written["error"]["reason"] == "NotImplemented"
    assert "novelty: Extra inputs are not permitted" in written["error"]["message"]
    assert str(tmp_path) not in written["error"]["message"]


def test_fetch_needs_a_spec(tmp_path: Path) -> None:
    done = fetch("", tmp_path)
    assert done.returncode == 1
    assert "PUMAS_WORKER" in done.stderr
    assert "Traceback" not in done.stderr


def test_fetch_says_when_its_result_cannot_be_left(tiny_models: Path, tmp_path: Path) -> None:
    spec = spec_of(tiny_models / "tiny-chat.gguf")
    done = fetch(spec.model_dump_json(by_alias=True), tmp_path / "nowhere")
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_command_is_a_usage_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pumas_server.worker", "dance"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "usage: python -m pumas_server.worker fetch|inspect|serve\n"
