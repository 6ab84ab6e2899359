"""The serving pod's init container: finds the weights, checks them, leaves what it found.

Told by `PUMAS_WORKER`, it writes an `Inspection` to the termination log in `PUMAS_RUN` and ends
with 0 or 1. It imports little, because every start of a model waits for it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pumas_crds.facts import Fault, Inspection
from pumas_crds.vocabulary import RUN_DIR, Reason, Variable
from pumas_server.worker.legible import legible
from pumas_server.worker.place import PlaceFault, read_worker_spec
from pumas_server.worker.weights import NAME_SHOWN, Refused, check_source, report

MESSAGE_LIMIT = 512


def main() -> int:
    """Run the command; returns its exit status."""
    result, sentence = _inspect()
    _say(sentence)
    try:
        report(result, Path(os.environ.get(Variable.RUN) or RUN_DIR))
    except OSError as error:
        _say(f"the result cannot be written to the run folder: {error.strerror}")
        return 1
    return 0 if result.error is None else 1


def _inspect() -> tuple[Inspection, str]:
    try:
        spec = read_worker_spec(os.environ)
        facts = check_source(spec, _say)
    except PlaceFault as fault:
        # A spec that cannot be parsed was written by another release than this one.
        message = legible(str(fault), MESSAGE_LIMIT)
        return Inspection(error=Fault(reason=Reason.NOT_IMPLEMENTED, message=message)), message
    except Refused as refusal:
        return Inspection(error=refusal.fault), refusal.fault.message
    name = legible(spec.source.file_name(), NAME_SHOWN)
    checked = ", digest checked" if facts.digest else ""
    return Inspection(file=facts), (
        f"{name} can be served: {facts.architecture}, {facts.parameters} weights,"
        f" most of them {facts.quantisation}{checked}"
    )


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
