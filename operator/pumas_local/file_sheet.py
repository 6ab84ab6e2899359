"""What a person sees of `pumas inspect`: one aligned sheet, coloured only on a terminal.

Values are printed as plain text, never as markup, and were made legible where they were read.
"""

from __future__ import annotations

from typing import assert_never

from rich.console import Console
from rich.text import Text

from pumas_crds.engine_mode import ModeChoice
from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import ONNX, EngineMode
from pumas_local.inspect_file import FileReport
from pumas_server.contract.descriptors import Available, Unavailable, UnavailableReason

NOT_STATED = "not stated"

_UNITS = ("KiB", "MiB", "GiB", "TiB")


def print_sheet(report: FileReport, console: Console | None = None) -> None:
    """Print all that was found. A refusal is not part of the sheet: it goes to stderr."""
    # Soft wrap: a line is a line, however narrow the terminal, so that it can be searched.
    out = console or Console(highlight=False, soft_wrap=True)
    if report.file is None:
        return
    out.print(Text(report.name, "bold"))
    _print_pairs(out, build_pairs(report.file, report.choice))
    if report.choice is None:
        return
    out.print()
    _print_pairs(out, [("Mode", report.choice.mode), ("Why", report.choice.why)])
    out.print()
    out.print(Text("Capabilities, once its engine is ready", "bold"))
    width = max(len(descriptor.capability) for descriptor in report.descriptors)
    for descriptor in report.descriptors:
        line = Text(f"  {descriptor.capability:{width}}  ")
        match descriptor.availability:
            case Available():
                line.append("available", "green")
            case Unavailable(reason=reason):
                line.append(f"{reason}: {explain(reason)}", "dim")
            case never:
                assert_never(never)
        out.print(line)


def _print_pairs(out: Console, pairs: list[tuple[str, str]]) -> None:
    for label, value in pairs:
        out.print(Text.assemble("  ", (f"{label:15}", "dim"), "  ", value))


def build_pairs(file: FileFacts, choice: ModeChoice | None) -> list[tuple[str, str]]:
    """The facts of a file, labelled, in words for people."""
    if file.format == ONNX:
        return _onnx_pairs(file)
    return [
        ("Architecture", file.architecture),
        ("Title", file.name or NOT_STATED),
        ("Size", _size(file.size_bytes)),
        ("Quantisation", f"{file.quantisation} (most weights)"),
        ("Parameters", f"{file.parameters:,}"),
        ("Context", f"{file.context_tokens:,} tokens" if file.context_tokens else NOT_STATED),
        ("Embedding width", f"{file.embedding_width:,}" if file.embedding_width else NOT_STATED),
        ("Tokenizer", file.tokenizer),
        ("Chat template", _template(file, choice)),
        ("Ranking head", "yes (cls.output.weight)" if file.ranking_head else "no"),
        ("Decision family", file.decision or "none"),
        ("Pooling", file.pooling or NOT_STATED),
        ("Causal", "yes" if file.causal else "no (an encoder)"),
    ]


def _onnx_pairs(file: FileFacts) -> list[tuple[str, str]]:
    """Of all the files of an ONNX model together."""
    pairs = [
        ("Format", "ONNX"),
        ("Pipeline" if file.pipeline else "Architecture", file.architecture or NOT_STATED),
        ("Size", _size(file.size_bytes)),
        ("Quantisation", f"{file.quantisation or NOT_STATED} (most weights)"),
        ("Parameters", f"{file.parameters:,}"),
        ("Context", f"{file.context_tokens:,} tokens" if file.context_tokens else NOT_STATED),
        ("Tokenizer", file.tokenizer or NOT_STATED),
        ("Takes", ", ".join(file.input_modalities or ("text",))),
    ]
    if file.pipeline is not None:
        return pairs
    width = f"{file.embedding_width:,}" if file.embedding_width else NOT_STATED
    return [
        *pairs,
        ("Embedding width", width),
        ("Pooling", file.pooling or NOT_STATED),
        ("Ranking head", "yes (a classifier of one label)" if file.ranking_head else "no"),
    ]


def explain(reason: UnavailableReason) -> str:
    """A reason's word in a few more words."""
    match reason:
        case UnavailableReason.UNSUPPORTED_ADAPTER:
            return "this release cannot carry it out"
        case UnavailableReason.UNQUALIFIED_AUDIO_RUNTIME:
            return "this release has no runtime for it"
        case UnavailableReason.MODEL_TASK_MISMATCH:
            return "not what this model is for"
        case UnavailableReason.UNKNOWN_MODEL_TASK:
            return "nothing tells what this model is for"
        case UnavailableReason.RUNTIME_UNAVAILABLE:
            return "its engine does not answer"
        case never:
            assert_never(never)


def _template(file: FileFacts, choice: ModeChoice | None) -> str:
    if file.chat_template:
        return "yes"
    generates = choice is not None and choice.mode is EngineMode.GENERATE
    return "no; the engine's default template is used" if generates else "no"


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} bytes"
    scaled = float(size)
    for unit in _UNITS:
        scaled /= 1024
        if scaled < 1024 or unit == _UNITS[-1]:
            break
    return f"{scaled:,.1f} {unit} ({size:,} bytes)"
