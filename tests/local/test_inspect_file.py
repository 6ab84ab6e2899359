"""`pumas inspect`: what it finds in each kind of file, in process and as a person runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pumas_crds.vocabulary import EngineMode, Reason, Task
from pumas_local.inspect_file import FileReport, inspect_file, render_json
from pumas_server.capabilities.rows import ROW_OF
from pumas_server.contract.descriptors import Available, UnavailableReason
from pumas_server.contract.words import Capability
from support import crafted_gguf as crafted
from support.inspection import HOSTILE, hostile_file, printed, run, unprintable
from support.readme import ROOT
from support.serve import manifest, serve
from support.worker import until

DOCS = (ROOT / "docs/local.md").read_text()

C = Capability
GENERATES = {C.CHAT_GENERATION, C.TEXT_GENERATION}


def verdicts(report: FileReport) -> dict[Capability, str]:
    return {
        d.capability: d.availability.state
        if isinstance(d.availability, Available)
        else d.availability.reason
        for d in report.descriptors
    }


def expected(offered: set[Capability]) -> dict[Capability, str]:
    """What all capabilities come to for a model that means to do `offered`."""
    return {
        capability: (
            row.missing
            if row.missing is UnavailableReason.UNQUALIFIED_AUDIO_RUNTIME
            else "model_task_mismatch"
            if capability not in offered
            else "available"
            if row.adapter
            else row.missing
        )
        for capability, row in ROW_OF.items()
    }


@pytest.mark.parametrize(
    ("model", "task", "mode", "why", "offered"),
    [
        ("tiny-chat", None, EngineMode.GENERATE, "nothing in the file speaks", GENERATES),
        (
            "tiny-chat",
            Task.FEATURE_EXTRACTION,
            EngineMode.EMBED,
            "task feature-extraction is recorded",
            {C.TEXT_EMBEDDING},
        ),
        ("tiny-embed", None, EngineMode.EMBED, "pooling is mean", {C.TEXT_EMBEDDING}),
        ("tiny-rerank", None, EngineMode.RERANK, "ranking head is there", {C.RERANK}),
        ("tiny-decision", None, EngineMode.DECIDE, "decision metadata (laya)", {C.DECISION}),
        # The engine would generate, but no capability of the contract is that task.
        ("tiny-chat", Task.AUDIO_TEXT_TO_TEXT, EngineMode.GENERATE, "is recorded", set()),
    ],
)
def test_mode_and_capabilities(
    tiny_models: Path,
    model: str,
    task: Task | None,
    mode: EngineMode,
    why: str,
    offered: set[Capability],
) -> None:
    report = inspect_file(tiny_models / f"{model}.gguf", task)
    assert report.error is None
    assert report.choice is not None
    assert report.choice.mode is mode
    assert why in report.choice.why
    assert verdicts(report) == expected(offered)


@pytest.mark.parametrize(
    ("model", "task", "reason", "sentence"),
    [
        ("tiny-rerank-headless", None, Reason.MISSING_RANKING_HEAD, "has no ranking head"),
        ("tiny-chat", Task.TEXT_RANKING, Reason.MISSING_RANKING_HEAD, "has no ranking head"),
        ("tiny-embed", Task.TEXT_GENERATION, Reason.TASK_MISMATCH, "is an encoder"),
        ("tiny-decision", Task.TEXT_GENERATION, Reason.TASK_MISMATCH, "only decides"),
        ("tiny-chat", Task.TEXT_TO_IMAGE, Reason.TASK_MISMATCH, "no llama.cpp engine does"),
    ],
)
def test_a_readable_file_that_is_refused_is_still_described(
    tiny_models: Path, model: str, task: Task | None, reason: Reason, sentence: str
) -> None:
    report = inspect_file(tiny_models / f"{model}.gguf", task)
    assert report.error is not None
    assert report.error.reason is reason
    assert report.error.message.startswith(f"{model}.gguf: ")
    assert sentence in report.error.message
    assert report.choice is None and report.descriptors == ()
    assert report.file is not None and report.file.name == model


def _unfit(kind: str, folder: Path, tiny_models: Path) -> Path:
    path = folder / "unfit.gguf"
    whole = (tiny_models / "tiny-chat.gguf").read_bytes()
    match kind:
        case "missing":
            pass
        case "below a file":
            (folder / "file").write_bytes(whole)
            path = folder / "file" / "unfit.gguf"
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "empty":
            path.touch()
        case "text":
            path.write_text("Once upon a time\n" * 100)
        case "cut in its header":
            path.write_bytes(whole[:200])
        case "cut in its weights":
            path.write_bytes(whole[:-1])
        case "too long a name":
            path = folder / ("x" * 300)
    return path


@pytest.mark.parametrize(
    ("kind", "reason", "sentence"),
    [
        ("missing", "SourceUnreachable", "is not there"),
        ("below a file", "SourceUnreachable", "Not a directory"),
        ("folder", "NotAModel", "unfit.gguf: the model's folder has none of model.onnx, "),
        ("pipe", "NotAModel", "is not a regular file"),
        ("empty", "NotAModel", "is empty"),
        ("text", "NotAModel", "does not begin as a GGUF file does"),
        ("cut in its header", "Truncated", "ends after 200 bytes"),
        ("cut in its weights", "Truncated", "its tensors need 467936"),
        ("too long a name", "SourceUnreachable", "File name too long"),
    ],
)
def test_a_file_that_is_no_model(
    tmp_path: Path, tiny_models: Path, kind: str, reason: str, sentence: str
) -> None:
    path = _unfit(kind, tmp_path, tiny_models)
    done = run(path)
    assert done.returncode == 1
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    # Where it was looked for is for who asked, and in no report.
    line = line.removesuffix(f" (looked for at {path})" if kind == "missing" else "")
    assert line.startswith(f"pumas: {reason}: ")
    assert sentence in line
    assert str(tmp_path) not in line

    body = json.loads(render_json(inspect_file(path, None)))
    assert body["file"] is body["mode"] is body["mode_reason"] is None
    assert body["capabilities"] == []
    assert body["error"] == {"reason": reason, "message": line.removeprefix(f"pumas: {reason}: ")}


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="needs a file of the kernel's")
def test_a_file_with_bytes_but_no_size() -> None:
    report = inspect_file(Path("/proc/cpuinfo"), None)
    assert report.error is not None and report.error.reason is Reason.NOT_A_MODEL


def test_json_of_a_refused_file(tiny_models: Path) -> None:
    done = run(tiny_models / "tiny-rerank-headless.gguf", "--json")
    assert done.returncode == 1
    assert done.stderr == b""
    body = json.loads(done.stdout)
    assert body["file"]["pooling"] == "rank"
    assert body["error"]["reason"] == "MissingRankingHead"
    assert body["mode"] is None and body["capabilities"] == []


def test_json(tiny_models: Path) -> None:
    done = run(tiny_models / "tiny-embed.gguf", "--json", "--task", "sentence-similarity")
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1
    body = json.loads(done.stdout)
    assert body.pop("file") == {
        "architecture": "bert",
        "name": "tiny-embed",
        "size_bytes": 427104,
        "quantisation": "F32",
        "parameters": 105664,
        "context_tokens": 512,
        "embedding_width": 64,
        "tokenizer": "bert",
        "chat_template": False,
        "causal": False,
        "pooling": "mean",
        "ranking_head": False,
        "decision": "",
        "format": None,
        "input_modalities": None,
        "pipeline": None,
        "projector": None,
    }
    capabilities = body.pop("capabilities")
    assert [entry["capability"] for entry in capabilities] == list(ROW_OF)
    assert capabilities[3]["availability"] == {
        "state": "unavailable",
        "reason": "model_task_mismatch",
    }
    assert body == {
        "mode": "embed",
        "mode_reason": "the task sentence-similarity is recorded",
        "error": None,
    }


@pytest.mark.parametrize("arguments", [(), ("--task", "text-ranking")])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_hostile_words_reach_no_terminal(
    tmp_path: Path, arguments: tuple[str, ...], encoding: str
) -> None:
    path = hostile_file(tmp_path)
    done = run(path, *arguments, encoding=encoding)
    assert done.returncode == (1 if arguments else 0)
    for stream in (done.stdout, done.stderr):
        text = stream.decode(encoding)
        assert unprintable(text) == []
        assert "\npumas: forged" not in text
    # Shown as it is: not obeyed as markup, not dropped.
    title = next(line for line in done.stdout.decode().splitlines() if "  Title " in line)
    assert title.endswith(r" [red]e[/red] :warning: \[f]")

    told = render_json(inspect_file(path, None))
    assert told.isascii() and told.isprintable()
    assert "[red]e[/red]" in json.loads(told)["file"]["name"]


def test_a_file_whose_decision_family_is_hostile(tmp_path: Path) -> None:
    path = tmp_path / "decision.gguf"
    metadata = [*crafted.MODEL, crafted.text("tiny.decision.type", HOSTILE)]
    path.write_bytes(crafted.gguf_file(metadata, [crafted.Row()], data=128))
    report = inspect_file(path, None)
    assert report.choice is not None and report.choice.mode is EngineMode.DECIDE
    assert unprintable(printed(report)) == []
    assert json.loads(render_json(report))["mode_reason"] == report.choice.why


def test_a_name_that_is_no_text(tmp_path: Path, tiny_models: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\xfe.gguf"
    with open(path, "wb") as file:
        file.write((tiny_models / "tiny-chat.gguf").read_bytes())
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().startswith("\ufffd\ufffd.gguf\n")


def test_an_unknown_task_is_a_usage_error(tiny_models: Path) -> None:
    done = run(tiny_models / "tiny-chat.gguf", "--task", "text-to-imag")
    assert done.returncode == 2
    assert done.stdout == b""
    told = b" ".join(done.stderr.replace("│".encode(), b" ").split())
    assert b'"text-to-imag" is no task; did you mean text-to-image' in told
    assert b"Traceback" not in told


def test_the_weights_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "vast.gguf"
    head = crafted.gguf_file(crafted.MODEL, [crafted.Row(shape=(1 << 20, 1 << 12))])
    path.write_bytes(head)
    os.truncate(path, len(head) + (16 << 30))
    before = os.times()
    report = inspect_file(path, None)
    after = os.times()
    assert report.file is not None and report.file.parameters == 1 << 32
    assert "Size             16.0 GiB (17,179,869," in printed(report)
    assert after.user + after.system - before.user - before.system < 1


@pytest.mark.parametrize("model", ["tiny-chat.gguf", "mean", "pipeline"])
def test_no_http_stack_and_no_engine_is_imported(
    tiny_models: Path, onnx_models: Path, model: str
) -> None:
    folder = onnx_models if "." not in model else tiny_models
    program = (
        "import sys; from pumas_local.cli import app\n"
        f"app(['inspect', {str(folder / model)!r}], standalone_mode=False)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
        "print(*[n for n in sys.modules if n.startswith('pumas_server.router')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    roots, router = done.stderr.split("\n")[:2]
    assert "pydantic" in roots.split()
    heavy = {"aiohttp", "asyncio", "fastapi", "httpx", "starlette", "uvicorn", "xllamacpp", "yaml"}
    heavy |= {"onnxruntime"} if model == "pipeline" else {"numpy", "onnxruntime", "tokenizers"}
    assert heavy & set(roots.split()) == set()
    assert router == ""


def test_a_served_model_is_what_was_inspected(tmp_path: Path, tiny_models: Path) -> None:
    """The same words as the running engine's row, for every mode."""
    models = ("tiny-chat", "tiny-embed", "tiny-rerank", "tiny-decision")
    files = {alias: tiny_models / f"{alias}.gguf" for alias in models}
    documents = [manifest(alias, source={"path": str(file)}) for alias, file in files.items()]
    with serve(tmp_path, *documents) as serving:
        for alias, file in files.items():
            serving.until_row(alias, load_state="loaded")
            told = json.loads(render_json(inspect_file(file, None)))["capabilities"]
            # The router's own look at the engine follows a moment after the state.
            until(
                lambda alias=alias, told=told: (
                    told
                    == [
                        {key: entry[key] for key in ("capability", "availability")}
                        for entry in serving.rows()[alias]["capabilities"]
                    ]
                ),
                f"the row of {alias} says {told}",
            )


def test_docs_list_every_key(tiny_models: Path) -> None:
    section = DOCS.partition("## What a file is")[2].partition("\n## ")[0]
    documented = re.findall(r"^\| `([a-z_.]+)` \|", section, re.M)
    body = json.loads(render_json(inspect_file(tiny_models / "tiny-chat.gguf", None)))
    keys = [f"file.{key}" for key in body.pop("file")]
    assert documented == ["file", *keys, *body]
