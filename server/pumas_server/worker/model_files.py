"""The files that a model is, by its runtime: one checker for all that lies on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never

from pumas_crds.facts import Fault, FileFacts
from pumas_crds.vocabulary import PIPELINE_INDEX, Reason, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.weights import (
    Refused,
    Say,
    check_digest,
    check_mode,
    check_projector,
    check_weights,
    refused,
    shown_name,
    source_name,
)


def check_files(spec: WorkerSpec, models: str, say: Say, *, digest: bool = True) -> FileFacts:
    """Check all files of the model, fetched below `models` or served where they lie.

    Without `digest` all but that, which reads every byte: it was checked when they came. `say` is
    told of progress about every second. Raises `Refused`.
    """
    # Of the spec as it is: a fetched file lies where its digest says.
    path = Path(spec.weights_file(models))
    spec = spec if digest else spec.model_copy(update={"sha256": None})
    match spec.runtime:
        case Runtime.LLAMA_CPP:
            facts = check_weights(spec, path, say)
            projector = spec.projector_file(models)
            if spec.projector is None or projector is None:
                return facts
            return check_projector(spec.projector, Path(projector), facts)
        case Runtime.ONNX_RUNTIME:
            return check_onnx(spec, path, lambda: _read_local(path), say)
        case Runtime.EXTERNAL:
            raise refused(Reason.NOT_IMPLEMENTED, "an external server has no files of ours")
        case _:
            assert_never(spec.runtime)


def _read_local(path: Path) -> FileFacts:
    # Here and not above: a pod of another runtime starts sooner without it.
    from pumas_server.worker.onnx_model import read_local

    return read_local(path)


def read_onnx(path: Path) -> FileFacts:
    """State what the ONNX model at `path` is, without judging it for a task. Raises `Refused`."""
    with _refusing(shown_name(path), path):
        return _read_local(path)


@contextmanager
def _refusing(name: str, path: Path | None) -> Iterator[None]:
    """Whatever is wrong with the files of `name`, here at `path`, as `Refused`."""
    try:
        yield
    except HeaderFault as fault:
        raise refused(fault.reason, f"{name}: {fault.message}") from None
    except OSError as error:
        told = error.strerror or "input/output error"
        unread = Fault(reason=Reason.SOURCE_UNREACHABLE, message=f"{name} cannot be read: {told}")
        missing = path if isinstance(error, FileNotFoundError) else None
        raise Refused(unread, missing) from None


def check_onnx(
    spec: WorkerSpec, path: Path | None, read: Callable[[], FileFacts], say: Say
) -> FileFacts:
    """Check an ONNX model: what `read` finds, and the digest of the weights at `path`.

    Without a path nothing of it is here, and its digest is checked when it is. Raises `Refused`.
    """
    from pumas_server.worker.onnx_model import weights_of

    if spec.sha256 is not None and spec.source.file_name() == PIPELINE_INDEX:
        raise _no_digest()  # before anything is fetched
    with _refusing(source_name(spec.source), path):
        facts = read()
        weights = weights_of(path) if path is not None else None
    if spec.sha256 is not None and facts.pipeline is not None:
        raise _no_digest()
    if spec.sha256 is not None and weights is not None:
        facts = check_digest(weights, spec.sha256, facts, say)
    check_mode(spec, facts)
    return facts


def _no_digest() -> Refused:
    return refused(Reason.NOT_IMPLEMENTED, "a pipeline is many files, so it has no sha256 to check")
