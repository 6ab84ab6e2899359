"""The inspection Job's container: says what a source is, and keeps nothing of it.

A file that lies on a volume is checked whole, its digest included. Of a remote one the header alone
is read, in a ranged request; its digest is checked when it is fetched. The exit status says whether
the verdict stands: 1 asks for another attempt.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, assert_never

from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import MODELS_DIR, PERMANENT_REASONS, Reason, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.model_files import check_files, check_onnx
from pumas_server.worker.remote_file import Unreachable
from pumas_server.worker.remote_header import fetch_facts, fetch_projector_facts
from pumas_server.worker.source_url import source_url
from pumas_server.worker.verdict import deliver, say
from pumas_server.worker.weights import (
    check_mode,
    check_projector,
    check_weights,
    refused,
    source_name,
    with_projector,
)

Found = TypeVar("Found")

#: A source that cannot be reached now may be reached later.
FINAL = PERMANENT_REASONS - {Reason.SOURCE_UNREACHABLE}


def main() -> int:
    """Run the command; returns its exit status."""
    result = deliver(_look)
    if result is None:
        return 1
    return 0 if result.error is None or result.error.reason in FINAL else 1


def _look(spec: WorkerSpec) -> FileFacts:
    match spec.runtime:
        case Runtime.LLAMA_CPP:
            return _look_at_projector(spec, _look_at_weights(spec))
        case Runtime.ONNX_RUNTIME if spec.source.remote:
            return check_onnx(spec, None, lambda: _remote(spec), say)
        case Runtime.ONNX_RUNTIME | Runtime.EXTERNAL:
            return check_files(spec, MODELS_DIR, say)
        case _:
            assert_never(spec.runtime)


def _remote(spec: WorkerSpec) -> FileFacts:
    from pumas_server.worker.onnx_model import fetch_remote_facts

    try:
        return fetch_remote_facts(spec.source, os.environ)
    except Unreachable as problem:
        name = source_name(spec.source)
        raise refused(Reason.SOURCE_UNREACHABLE, f"{name} cannot be fetched: {problem}") from None


def _look_at_weights(spec: WorkerSpec) -> FileFacts:
    url = source_url(spec.source, os.environ)
    if url is None:
        return check_weights(spec, Path(spec.weights_file(MODELS_DIR)), say)
    facts = _fetched(spec.source, url, fetch_facts)
    check_mode(spec, facts)
    return facts


def _look_at_projector(spec: WorkerSpec, facts: FileFacts) -> FileFacts:
    source, path = spec.projector, spec.projector_file(MODELS_DIR)
    if source is None or path is None:
        return facts
    url = source_url(source, os.environ)
    if url is None:
        return check_projector(source, Path(path), facts)
    return with_projector(facts, _fetched(source, url, fetch_projector_facts), source_name(source))


def _fetched(source: Source, url: str, fetch: Callable[[str], Found]) -> Found:
    """What `fetch` finds at the source's URL. Raises `Refused`, naming the file."""
    name = source_name(source)
    try:
        return fetch(url)
    except Unreachable as problem:
        raise refused(Reason.SOURCE_UNREACHABLE, f"{name} cannot be fetched: {problem}") from None
    except HeaderFault as fault:
        raise refused(fault.reason, f"{name}: {fault.message}") from None
