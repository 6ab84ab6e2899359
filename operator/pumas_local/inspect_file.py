"""What `pumas inspect` finds: what a file is, and what an engine of ours would make of it.

The file is judged by the functions that serve it: the worker's `read_facts` and `engine_mode`, the
facts of an engine that publishes nothing of itself, the router's `declare`. So the answer is the
one that the model's row would give once its engine is ready. Nothing of the weights is read, no
engine is started and no HTTP stack is imported.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from pumas_crds.engine_mode import ModeChoice, ModeRefusal, engine_mode
from pumas_crds.facts import Fault, FileFacts
from pumas_crds.served_model import ServedModelSpec
from pumas_crds.source import Source
from pumas_crds.vocabulary import ONNX, ONNX_SUFFIX, PIPELINE_INDEX, Runtime, Task
from pumas_server.capabilities import Facts, declare
from pumas_server.contract.descriptors import Descriptor, Modalities
from pumas_server.worker.model_files import read_onnx
from pumas_server.worker.runtime import runtime_facts
from pumas_server.worker.weights import Refused, read_facts, shown_name


@dataclass(frozen=True, slots=True)
class FileReport:
    """What was found; `choice` with `descriptors`, or `error`."""

    name: str
    """The file's name, fit to be shown."""
    file: FileFacts | None
    """None when the file is no model at all."""
    choice: ModeChoice | None = None
    """What an engine would be started for."""
    descriptors: tuple[Descriptor, ...] = ()
    """All capabilities of the contract, as that engine would have them when it is ready."""
    error: Fault | None = None
    """Why the file is refused."""
    sentence: str = ""
    """The same for the user's own eyes, who may be told a path."""


def inspect_file(path: Path, task: Task | None) -> FileReport:
    """Read what the file or folder at `path` says, and conclude; a refusal is in the report."""
    name = shown_name(path)
    try:
        facts = read_onnx(path) if is_onnx(path) else read_facts(path)
    except Refused as refused:
        return FileReport(name, None, error=refused.fault, sentence=refused.sentence)
    return build_report(name, facts, task)


def is_onnx(path: Path) -> bool:
    """Whether it is looked at as an ONNX model: a folder, a graph, or a pipeline's index."""
    return os.path.isdir(path) or path.name.endswith((ONNX_SUFFIX, PIPELINE_INDEX))


def build_report(name: str, file: FileFacts, task: Task | None) -> FileReport:
    """What serving a file with these facts, for this recorded task, would come to."""
    match engine_mode(task, file):
        case ModeRefusal(reason, message):
            return FileReport(name, file, error=Fault(reason=reason, message=f"{name}: {message}"))
        case ModeChoice() as choice:
            return FileReport(name, file, choice, _descriptors(name, file, task, choice))
        case never:
            assert_never(never)


def _descriptors(
    name: str, file: FileFacts, task: Task | None, choice: ModeChoice
) -> tuple[Descriptor, ...]:
    silent = runtime_facts(None, None, None, file, choice.mode)
    runtime = Runtime.ONNX_RUNTIME if file.format == ONNX else Runtime.LLAMA_CPP
    spec = ServedModelSpec(task=task, runtime=runtime, source=Source(path=name))
    modalities = Modalities(input=silent.input_modalities, output=silent.output_modalities)
    return declare(spec, Facts(ready=True, mode=choice.mode, modalities=modalities))


def render_json(report: FileReport) -> str:
    """The report as one JSON object in ASCII, so that no terminal obeys what a file says.

    Every key is always there; `docs/local.md` lists them. They grow additively.
    """
    file, choice, error = report.file, report.choice, report.error
    return json.dumps(
        {
            # The digest is of all bytes, of which the header's alone were read.
            "file": file.model_dump(mode="json", exclude={"digest"}) if file else None,
            "mode": choice.mode if choice else None,
            "mode_reason": choice.why if choice else None,
            "capabilities": [
                {
                    "capability": descriptor.capability,
                    "availability": descriptor.availability.model_dump(mode="json"),
                }
                for descriptor in report.descriptors
            ],
            "error": error.model_dump(mode="json") if error else None,
        }
    )
