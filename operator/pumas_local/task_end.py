"""The end of a task that looks after something for as long as that is wanted."""

from __future__ import annotations

import asyncio
import logging

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import Reason

logger = logging.getLogger(__name__)


def explain_end(task: asyncio.Task[None], what: str) -> Fault | None:
    """What the end means for `what`; None where it is not one of our faults, which are logged."""
    error = None if task.cancelled() else task.exception()
    if error is None:
        return None
    logger.error("a %s is no longer looked after", what, exc_info=error)
    sentence = f"The {what} is no longer looked after, because of an internal error."
    return Fault(reason=Reason.ENGINE_FAILED, message=sentence)
