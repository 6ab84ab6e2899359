"""The inspection Job's container: says what a source is, and keeps nothing of it.

A file that lies on a volume is checked whole, its digest included. Of a remote one the header alone
is read, in a ranged request; its digest is checked when it is fetched. The exit status says whether
the verdict stands: 1 asks for another attempt.
"""

from __future__ import annotations

import os
from pathlib import Path

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import MODELS_DIR, PERMANENT_REASONS, Reason
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.remote_file import Unreachable
from pumas_server.worker.remote_header import fetch_facts
from pumas_server.worker.source_url import source_url
from pumas_server.worker.verdict import deliver, say
from pumas_server.worker.weights import (
    check_mode,
    check_runtime,
    check_source,
    refused,
    source_name,
)

#: A source that cannot be reached now may be reached later.
FINAL = PERMANENT_REASONS - {Reason.SOURCE_UNREACHABLE}


def main() -> int:
    """Run the command; returns its exit status."""
    result = deliver(_look)
    if result is None:
        return 1
    return 0 if result.error is None or result.error.reason in FINAL else 1


def _look(spec: WorkerSpec) -> FileFacts:
    url = source_url(spec.source, os.environ)
    if url is None:
        return check_source(spec, Path(spec.weights_file(MODELS_DIR)), say)
    check_runtime(spec)
    name = source_name(spec)
    try:
        facts = fetch_facts(url)
    except Unreachable as problem:
        raise refused(Reason.SOURCE_UNREACHABLE, f"{name} cannot be fetched: {problem}") from None
    except HeaderFault as fault:
        raise refused(fault.reason, f"{name}: {fault.message}") from None
    check_mode(spec, facts)
    return facts
