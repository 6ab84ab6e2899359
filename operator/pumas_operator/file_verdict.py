"""What is known of a model's file, and whether a Job has to look at it.

A verdict belongs to an inspection: to a source, its digest and its task. It outlives the pod or Job
that reached it, and later generations of the spec that ask for the same.
"""

from __future__ import annotations

from typing import NamedTuple

from pumas_crds.facts import Fault, FileFacts
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import PERMANENT_REASONS, Reason
from pumas_operator.observation import Observed

#: Refusals that are computed anew every time, hence never kept from an earlier status.
RECOMPUTED = frozenset(
    {
        Reason.DUPLICATE_IDENTITY,
        Reason.ENDPOINT_NOT_ALLOWED,
        Reason.INVALID_SPEC,
        Reason.NOT_IMPLEMENTED,
        Reason.PROFILE_NOT_FOUND,
        Reason.SOURCE_NOT_ALLOWED,
    }
)
#: Verdicts about a file that may pass by themselves, so that it is inspected again and again.
RETRIED = frozenset({Reason.SOURCE_UNREACHABLE})


class FileVerdict(NamedTuple):
    """What a model's file is, or why it cannot serve; neither before anybody has looked."""

    file: FileFacts | None
    error: Fault | None


def select_load_request(model: ServedModel, asked: str) -> str:
    """The load request that counts: a new one where the file was refused, else the last one."""
    error = model.status.error
    refused = error is not None and error.reason in PERMANENT_REASONS - RECOMPUTED
    return asked if asked and refused else model.status.load_request or ""


def select_verdict(model: ServedModel, observed: Observed) -> FileVerdict:
    """What is known of the file: the newest pod's word, else the Job's, else what was known."""
    for pod in reversed(observed.live):
        if pod.current and pod.inspection is not None:
            return FileVerdict(pod.inspection.file, pod.inspection.error)
    job = observed.inspection
    if job is not None and job.result is not None:
        return FileVerdict(job.result.file, job.result.error)
    previous = model.status
    if observed.inspection_hash and previous.inspection_hash:
        still_asked = previous.inspection_hash == observed.inspection_hash
    else:
        still_asked = previous.observed_generation == model.metadata.generation
    if not still_asked:
        return FileVerdict(None, None)
    # A pod that has not read the file yet is a new attempt; only without one does a fault persist.
    attempted = any(pod.current for pod in observed.live)
    error = None if attempted else previous.error
    kept = error is not None and error.reason in PERMANENT_REASONS - RECOMPUTED
    return FileVerdict(previous.file, error if kept else None)


def inspection_due(model: ServedModel, observed: Observed) -> bool:
    """Whether a Job has to look at the file: none does, and no verdict on this source is known."""
    wanted = observed.inspection_hash
    return bool(wanted) and observed.inspection is None and model.status.inspection_hash != wanted
