"""How a container of ours that looks at a file tells what it found: one `Inspection`, one line.

The same for fetching and inspecting: the spec from the environment, the result to the termination
log, a sentence on stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from pumas_crds.facts import Fault, FileFacts, Inspection
from pumas_crds.vocabulary import RUN_DIR, Reason, Variable
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.legible import legible
from pumas_server.worker.place import PlaceFault, read_worker_spec
from pumas_server.worker.weights import Refused, report, source_name

MESSAGE_LIMIT = 512


def deliver(find: Callable[[WorkerSpec], FileFacts]) -> Inspection | None:
    """Let `find` look and report what it found; None when the report could not be written."""
    result, sentence = _result(find)
    say(sentence)
    try:
        report(result, Path(os.environ.get(Variable.RUN) or RUN_DIR))
    except OSError as error:
        say(f"the result cannot be written to the run folder: {error.strerror}")
        return None
    return result


def say(sentence: str) -> None:
    """One line for whoever reads the container's output."""
    print(sentence, file=sys.stderr, flush=True)


def _result(find: Callable[[WorkerSpec], FileFacts]) -> tuple[Inspection, str]:
    try:
        spec = read_worker_spec(os.environ)
        facts = find(spec)
    except PlaceFault as fault:
        # A spec that cannot be parsed was written by another release than this one.
        message = legible(str(fault), MESSAGE_LIMIT)
        return Inspection(error=Fault(reason=Reason.NOT_IMPLEMENTED, message=message)), message
    except Refused as refusal:
        return Inspection(error=refusal.fault), refusal.sentence
    checked = ", digest checked" if facts.digest else ""
    return Inspection(file=facts), (
        f"{source_name(spec.source)} can be served: {facts.architecture},"
        f" {facts.parameters} weights, most of them {facts.quantisation}{checked}"
    )
