"""The serving pod's init container: has the weights there, checked, and leaves what it found.

Told by `PUMAS_WORKER`, it fetches a remote file into the cache `PUMAS_MODELS`, writes an
`Inspection` to the termination log in `PUMAS_RUN` and ends with 0 or 1. It imports little, because
every start of a model waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import assert_never

from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import MODELS_DIR, Reason, Runtime, Variable
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.model_files import check_files, check_onnx
from pumas_server.worker.source_url import source_url
from pumas_server.worker.verdict import deliver, say
from pumas_server.worker.weights import (
    Refused,
    check_projector,
    check_weights,
    refused,
    source_name,
)


def main() -> int:
    """Run the command; returns its exit status."""
    result = deliver(_have)
    return 0 if result is not None and result.error is None else 1


def _have(spec: WorkerSpec) -> FileFacts:
    models = os.environ.get(Variable.MODELS) or MODELS_DIR
    match spec.runtime:
        case Runtime.LLAMA_CPP:
            facts = _have_weights(spec, Path(spec.weights_file(models)))
            projector = spec.projector_file(models)
            if spec.projector is None or projector is None:
                return facts
            return _have_projector(spec.projector, Path(projector), facts)
        case Runtime.ONNX_RUNTIME if spec.source.remote:
            return _have_folder(spec, Path(spec.weights_file(models)))
        case Runtime.ONNX_RUNTIME | Runtime.EXTERNAL:
            return check_files(spec, models, say)
        case _:
            assert_never(spec.runtime)


def _have_weights(spec: WorkerSpec, file: Path) -> FileFacts:
    return _have_file(spec.source, file, lambda path: check_weights(spec, path, say))


def _have_projector(source: Source, file: Path, facts: FileFacts) -> FileFacts:
    return _have_file(source, file, lambda path: check_projector(source, path, facts))


def _have_folder(spec: WorkerSpec, file: Path) -> FileFacts:
    """What an ONNX model is, once all its files are there. Raises `Refused`."""
    from pumas_server.worker.cached_folder import CachedFolder
    from pumas_server.worker.onnx_model import find_root, read_local, read_through, url_below

    name = source_name(spec.source)
    whole = file.parent / f".whole-{file.name}"
    asked: list[CachedFolder] = []

    def read() -> FileFacts:
        if whole.exists():
            # No server is asked for what is whole. What is no longer is completed below.
            with suppress(HeaderFault, OSError):
                return read_local(file)
        with _fetching(name):
            root, own = find_root(spec.source, os.environ)
            folder = Path(str(file).removesuffix(own))
            files = CachedFolder(folder, url_below(spec.source, os.environ, root), say)
            asked.append(files)
            return read_through(files, own)

    try:
        facts = check_onnx(spec, file, read, say)
    except Refused as refusal:
        # What stays is never fetched again, so what is refused does not stay.
        if refusal.fault.reason is Reason.DIGEST_MISMATCH:
            whole.unlink(missing_ok=True)
            file.unlink(missing_ok=True)
        if refusal.fault.reason not in _INTERRUPTED and not whole.exists():
            for files in asked:
                files.forget()
        raise
    if asked:
        with _fetching(name):
            whole.touch()
    return facts


#: What is there is as it should be, and the next attempt goes on with it.
_INTERRUPTED = (Reason.SOURCE_UNREACHABLE, Reason.FETCH_FAILED)


@contextmanager
def _fetching(name: str) -> Iterator[None]:
    """Whatever fetching `name` comes to, as `Refused`."""
    from pumas_server.worker.download import NoRoom
    from pumas_server.worker.remote_file import Unreachable

    try:
        yield
    except Unreachable as problem:
        raise refused(Reason.SOURCE_UNREACHABLE, f"{name} cannot be fetched: {problem}") from None
    except NoRoom as problem:
        raise refused(Reason.FETCH_FAILED, f"{name} cannot be fetched: {problem}") from None
    except OSError as error:
        told = error.strerror or type(error).__name__
        raise refused(Reason.FETCH_FAILED, f"{name} cannot be put into the cache: {told}") from None


def _have_file(source: Source, file: Path, check: Callable[[Path], FileFacts]) -> FileFacts:
    """What `check` finds in the file, once it is there. Raises `Refused`."""
    url = source_url(source, os.environ)
    if url is None or file.exists():
        return check(file)
    # Here and not above: most starts find the file in its place and need no HTTP.
    from pumas_server.worker.download import download

    found: list[FileFacts] = []
    with _fetching(source_name(source)):
        download(url, file, lambda part: found.append(check(part)), say)
    # Empty when another process put the file there while this one waited for it.
    return found[0] if found else check(file)
