"""The GGUF files of a serving pod: checked as far as is possible without loading it.

The order is by cost: is it there, does its header hold, is every tensor within the file, then the
digest over all of it, last whether it can do the recorded task. What is found is either
`FileFacts` or one `Fault`; both leave the pod as its termination message.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

from pumas_crds.engine import IMAGE_SETTINGS
from pumas_crds.engine_mode import ModeChoice, ModeRefusal, engine_mode
from pumas_crds.facts import Fault, FileFacts, Inspection, ProjectorFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import (
    ONNX,
    ONNX_SUFFIX,
    PIPELINE_INDEX,
    TERMINATION_LOG,
    EngineMode,
    Reason,
    Runtime,
)
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.gguf_header import GgufHeader, read_header
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.inspection import file_facts
from pumas_server.worker.legible import legible
from pumas_server.worker.projector import check_fit, projector_facts

BLOCK_BYTES = 1 << 20
PROGRESS_SECONDS = 1.0
DIGEST_SHOWN = 12
NAME_SHOWN = 128
PATH_SHOWN = 1024
#: Kubernetes keeps this much of a termination message.
TERMINATION_BYTES = 4096

Say = Callable[[str], None]
Read = TypeVar("Read")


class Refused(Exception):
    """The weights cannot be served; `fault` says why in words fit for a status."""

    def __init__(self, fault: Fault, missing: Path | None = None) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.missing = missing
        """What is not there, when that is the reason: for the eyes of whoever named it."""

    @property
    def sentence(self) -> str:
        """What is said to them: the message, and where was looked."""
        if self.missing is None:
            return self.fault.message
        where = legible(os.path.abspath(self.missing), PATH_SHOWN)
        home = any(part.startswith("~") for part in self.missing.parts)
        hint = ", where ~ is a name like any other" if home else ""
        return f"{self.fault.message} (looked for at {where}{hint})"


def check_weights(spec: WorkerSpec, path: Path, say: Say) -> FileFacts:
    """Check the weights at `path`, all of them; `say` is told of progress about every second.

    Raises `Refused`. Messages name the file as the source does, by its last component.
    """
    name = source_name(spec.source)
    with _opened(path, name) as file:
        facts = _read(file, name, file_facts)
        if spec.sha256 is not None:
            facts = _check_digest(file, name, spec.sha256, facts, say)
    check_mode(spec, facts)
    return facts


def check_digest(path: Path, expected: str, facts: FileFacts, say: Say) -> FileFacts:
    """The facts with the digest of the file at `path`. Raises `Refused`."""
    name = shown_name(path)
    with _opened(path, name) as file:
        return _check_digest(file, name, expected, facts, say)


def check_projector(source: Source, path: Path, facts: FileFacts) -> FileFacts:
    """The facts of the weights with those of the projector at `path`. Raises `Refused`."""
    name = source_name(source)
    with _opened(path, name, "projector") as file:
        return with_projector(facts, _read(file, name, projector_facts), name)


def with_projector(facts: FileFacts, projector: ProjectorFacts, name: str) -> FileFacts:
    """The facts of weights and projector together. Raises `Refused` when they do not fit."""
    try:
        check_fit(facts, projector)
    except HeaderFault as fault:
        raise refused(fault.reason, f"{name}: {fault.message}") from None
    return facts.model_copy(update={"projector": projector})


def check_mode(spec: WorkerSpec, facts: FileFacts) -> None:
    """Check that a file with these facts can do what the spec asks for. Raises `Refused`."""
    match engine_mode(spec.task, facts):
        case ModeRefusal(reason, message):
            raise refused(reason, f"{source_name(spec.source)}: {message}")
        case ModeChoice(mode):
            if mode is not EngineMode.GENERATE_IMAGE and spec.engine.gives(IMAGE_SETTINGS):
                raise refused(
                    Reason.NOT_IMPLEMENTED,
                    "engine.steps and engine.guidancePercent are for image pipelines;"
                    f" this model is here to {mode}",
                )


def read_facts(path: Path) -> FileFacts:
    """State what the file is, from its header alone: no digest, and no judgement of a task.

    Raises `Refused`, in the words of `check_weights`.
    """
    name = shown_name(path)
    with _opened(path, name) as file:
        return _read(file, name, file_facts)


def shown_name(path: Path) -> str:
    """What messages call the file: its last component, made legible, never its folder."""
    return legible(path.name or str(path), NAME_SHOWN)


def source_name(source: Source) -> str:
    """What messages call the file of a source."""
    return legible(source.file_name() or source.path or "", NAME_SHOWN)


def report(result: Inspection, run_dir: Path) -> None:
    """Write the result where Kubernetes takes a container's termination message from."""
    message = result.model_dump_json(by_alias=True, exclude_none=True).encode()
    if len(message) > TERMINATION_BYTES:
        raise ValueError(f"a termination message of {len(message)} bytes would be cut off")
    # In place, not renamed into place: in a pod this file is a mount of its own.
    (run_dir / TERMINATION_LOG).write_bytes(message)


@contextmanager
def _opened(path: Path, name: str, what: str = "weights file") -> Iterator[BufferedReader]:
    """The open file; what goes wrong with it while it is open is a refusal too."""
    try:
        _check_is_file(path, name, what)
        with path.open("rb") as file:
            yield file
    except FileNotFoundError:
        fault = Fault(reason=Reason.SOURCE_UNREACHABLE, message=f"the {what} {name} is not there")
        raise Refused(fault, missing=path) from None
    except OSError as error:
        # `strerror` alone: the whole error names the path.
        raise refused(
            Reason.SOURCE_UNREACHABLE,
            f"the {what} {name} cannot be read: {error.strerror or 'input/output error'}",
        ) from None


def _check_is_file(path: Path, name: str, what: str) -> None:
    """Look before opening: opening a pipe would wait for its writer."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise refused(Reason.NOT_A_MODEL, f"{name} is a folder, not a {what}{_hint(path)}")
    if not stat.S_ISREG(mode):
        raise refused(Reason.NOT_A_MODEL, f"{name} is not a regular file")


def _hint(folder: Path) -> str:
    """What serves a folder with an ONNX model: it is a runtime that has to be named."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
        below = [entry.name for entry in (folder / ONNX).iterdir()] if ONNX in names else []
    except OSError:
        return ""  # the folder is refused in any case
    if any(name == PIPELINE_INDEX or name.endswith(ONNX_SUFFIX) for name in (*names, *below)):
        return f"; it holds an ONNX model, which spec.runtime: {Runtime.ONNX_RUNTIME} serves"
    return ""


def _read(file: BufferedReader, name: str, meaning: Callable[[GgufHeader, int], Read]) -> Read:
    """What the header of an open file means. Raises `Refused`."""
    # Of both: a file of the kernel's claims no size and yet has bytes, which cannot be mapped.
    if not file.peek(1) or not os.fstat(file.fileno()).st_size:
        raise refused(Reason.NOT_A_MODEL, f"{name} is empty")
    try:
        # Mapped, so that only the header's pages are read of a file of any size.
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            size = len(data)
            return meaning(read_header(data, size), size)
    except HeaderFault as fault:
        raise refused(fault.reason, f"{name}: {fault.message}") from None


def _check_digest(
    file: BufferedReader, name: str, expected: str, facts: FileFacts, say: Say
) -> FileFacts:
    found = _sha256(file, name, os.fstat(file.fileno()).st_size, say)
    if found != expected:
        raise refused(
            Reason.DIGEST_MISMATCH,
            f"{name} has sha256 {found[:DIGEST_SHOWN]}…, not {expected[:DIGEST_SHOWN]}…"
            " as the spec says",
        )
    return facts.model_copy(update={"digest": f"sha256:{found}"})


def _sha256(file: BufferedReader, name: str, size: int, say: Say) -> str:
    digest = hashlib.sha256()
    block = memoryview(bytearray(BLOCK_BYTES))
    done = 0
    said = time.monotonic()
    file.seek(0)
    while count := file.readinto(block):
        digest.update(block[:count])
        done += count
        if (now := time.monotonic()) - said >= PROGRESS_SECONDS:
            said = now
            say(f"{name}: sha256 of {done >> 20} of {size >> 20} MiB computed")
    return digest.hexdigest()


def refused(reason: Reason, message: str) -> Refused:
    """The refusal with that reason and sentence."""
    return Refused(Fault(reason=reason, message=message))
