"""The sheet of `pumas inspect`: its words, its alignment, its colours, and the one in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pumas_local.inspect_file import inspect_file
from pumas_server.capabilities.rows import ROW_OF
from support.inspection import hostile_file, printed, run, unprintable
from support.readme import ROOT

DOCS = (ROOT / "docs/local.md").read_text()


def test_sheet(tiny_models: Path) -> None:
    done = run(tiny_models / "tiny-chat.gguf")
    assert done.returncode == 0
    assert done.stderr == b""
    text = done.stdout.decode()
    assert "\x1b" not in text
    assert text.startswith(
        "tiny-chat.gguf\n"
        "  Architecture     llama\n"
        "  Title            tiny-chat\n"
        "  Size             457.0 KiB (467,936 bytes)\n"
        "  Quantisation     F32 (most weights)\n"
        "  Parameters       115,520\n"
        "  Context          2,048 tokens\n"
        "  Embedding width  64\n"
        "  Tokenizer        gpt2\n"
        "  Chat template    yes\n"
        "  Ranking head     no\n"
        "  Decision family  none\n"
        "  Pooling          not stated\n"
        "  Causal           yes\n"
        "\n"
        "  Mode             generate\n"
        "  Why              nothing in the file speaks against generating text\n"
        "\n"
        "Capabilities, once its engine is ready\n"
        "  chat_generation       available\n"
        "  text_generation       available\n"
    )
    assert [line.split()[0] for line in text.splitlines()[-len(ROW_OF) :]] == list(ROW_OF)
    assert re.search(r"^  audio_transcription   unqualified_audio_runtime: this ", text, re.M)


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (
            "tiny-chat-no-template",
            ["Chat template    no; the engine's default template is used"],
        ),
        ("tiny-embed", ["Pooling          mean", "Causal           no (an encoder)"]),
        # No chat is asked of an engine that ranks or decides, so no template is missing.
        ("tiny-rerank", ["Ranking head     yes (cls.output.weight)", "Chat template    no"]),
        ("tiny-decision", ["Decision family  laya", "Chat template    no"]),
    ],
)
def test_sheet_of_other_models(tiny_models: Path, model: str, lines: list[str]) -> None:
    sheet = printed(inspect_file(tiny_models / f"{model}.gguf", None)).splitlines()
    assert [line for line in lines if f"  {line}" not in sheet] == []


def test_sheet_of_an_onnx_folder(onnx_models: Path) -> None:
    done = run(onnx_models / "mean")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().startswith(
        "mean\n"
        "  Format           ONNX\n"
        "  Architecture     tiny\n"
        "  Size             23.0 KiB (23,505 bytes)\n"
        "  Quantisation     FLOAT (most weights)\n"
        "  Parameters       4,008\n"
        "  Context          48 tokens\n"
        "  Tokenizer        WordPiece\n"
        "  Takes            text\n"
        "  Embedding width  16\n"
        "  Pooling          mean\n"
        "  Ranking head     no\n"
        "\n"
        "  Mode             embed\n"
    )


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (
            "rerank",
            ["Ranking head     yes (a classifier of one label)", "Pooling          not stated"],
        ),
        ("clip/model.onnx", ["Takes            text, image", "Embedding width  12"]),
    ],
)
def test_sheet_of_other_onnx_models(onnx_models: Path, model: str, lines: list[str]) -> None:
    sheet = printed(inspect_file(onnx_models / model, None)).splitlines()
    assert sheet[0] == model.rpartition("/")[2]
    assert [line for line in lines if f"  {line}" not in sheet] == []


def test_sheet_of_a_pipeline(onnx_models: Path) -> None:
    """Named by its folder or by its index, it is one model."""
    folder = onnx_models / "pipeline"
    sheet = printed(inspect_file(folder, None)).splitlines()
    assert sheet[1:9] == [
        "  Format           ONNX",
        "  Pipeline         StableDiffusionPipeline",
        "  Size             73.9 KiB (75,667 bytes)",
        "  Quantisation     FLOAT (most weights)",
        "  Parameters       18,357",
        "  Context          77 tokens",
        "  Tokenizer        clip",
        "  Takes            text",
    ]
    assert sheet[9] == "" and sheet[10].endswith("generate-image")
    assert "  image_generation      available" in sheet
    assert printed(inspect_file(folder / "model_index.json", None)).splitlines()[1:] == sheet[1:]


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == (
        f"pumas: NotAModel: {tmp_path.name}: the model's folder has none of model.onnx,"
        " onnx/model.onnx, text_model.onnx, onnx/text_model.onnx\n"
    )


def test_refused_file_as_a_person_sees_it(tiny_models: Path) -> None:
    done = run(tiny_models / "tiny-rerank-headless.gguf")
    assert done.returncode == 1
    assert b"  Pooling          rank\n" in done.stdout
    assert b"Mode" not in done.stdout and b"Capabilities" not in done.stdout
    assert done.stderr == (
        b"pumas: MissingRankingHead: tiny-rerank-headless.gguf: the file's pooling is rank,"
        b" but the file has no ranking head (tensor cls.output.weight)\n"
    )


def test_colour_on_a_terminal_only(tiny_models: Path) -> None:
    report = inspect_file(tiny_models / "tiny-chat.gguf", None)
    assert "\x1b[32mavailable\x1b[0m" in printed(report, terminal=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", printed(report, terminal=True)) == printed(report)


def test_hostile_words_at_a_terminal(tmp_path: Path) -> None:
    report = inspect_file(hostile_file(tmp_path), None)
    shown = re.sub(r"\x1b\[(0|1|2|32)m", "", printed(report, terminal=True))
    assert unprintable(shown) == []


def test_docs_show_what_is_printed(tiny_models: Path) -> None:
    """The pasted sheet is of a real model that generates, hence has the verdicts of a tiny one."""
    section = DOCS.partition("## What a file is")[2].partition("\n## ")[0]
    pasted = section.partition("$ pumas inspect ")[2].partition("```")[0].splitlines()
    sheet = printed(inspect_file(tiny_models / "tiny-chat-no-template.gguf", None)).splitlines()
    labels = [line[:17] for line in sheet[1:14]]
    assert [line[:17] for line in pasted[2:15]] == labels
    stale = "paste the output of `pumas inspect` in docs/local.md again"
    assert pasted[15:] == sheet[14:], stale
