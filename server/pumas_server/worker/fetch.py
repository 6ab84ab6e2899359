"""The serving pod's init container: has the weights there, checked, and leaves what it found.

Told by `PUMAS_WORKER`, it fetches a remote file into the cache `PUMAS_MODELS`, writes an
`Inspection` to the termination log in `PUMAS_RUN` and ends with 0 or 1. It imports little, because
every start of a model waits for it.
"""

from __future__ import annotations

import os
from pathlib import Path

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import MODELS_DIR, Reason, Variable
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.source_url import source_url
from pumas_server.worker.verdict import deliver, say
from pumas_server.worker.weights import check_source, refused, source_name


def main() -> int:
    """Run the command; returns its exit status."""
    result = deliver(_have)
    return 0 if result is not None and result.error is None else 1


def _have(spec: WorkerSpec) -> FileFacts:
    file = Path(spec.weights_file(os.environ.get(Variable.MODELS) or MODELS_DIR))
    url = source_url(spec.source, os.environ)
    if url is not None and not file.exists():
        return _fetched(url, file, spec)
    return check_source(spec, file, say)


def _fetched(url: str, file: Path, spec: WorkerSpec) -> FileFacts:
    # Here and not above: most starts find the file in its place and need no HTTP.
    from pumas_server.worker.download import NoRoom, download
    from pumas_server.worker.remote_file import Unreachable

    found: list[FileFacts] = []
    name = source_name(spec)
    try:
        download(url, file, lambda part: found.append(check_source(spec, part, say)), say)
    except Unreachable as problem:
        raise refused(Reason.SOURCE_UNREACHABLE, f"{name} cannot be fetched: {problem}") from None
    except NoRoom as problem:
        raise refused(Reason.FETCH_FAILED, f"{name} cannot be fetched: {problem}") from None
    except OSError as error:
        told = error.strerror or type(error).__name__
        raise refused(Reason.FETCH_FAILED, f"{name} cannot be put into the cache: {told}") from None
    # Empty when another process put the file there while this one waited for it.
    return found[0] if found else check_source(spec, file, say)
