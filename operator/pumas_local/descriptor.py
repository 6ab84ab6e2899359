"""What a local pod says of its engine."""

from __future__ import annotations

from pydantic import ValidationError

from pumas_crds.facts import Fault, PodDescriptor
from pumas_local.pod import LOOPBACK, Ports
from pumas_local.probe import fetch

TIMEOUT_SECONDS = 2.0


async def read_engine_fault(ports: Ports) -> Fault | None:
    """The engine's last failure, while it is not ready; None too when the pod does not answer."""
    body = await fetch(LOOPBACK, ports.supervisor, "/descriptor", TIMEOUT_SECONDS)
    if body is None:
        return None
    try:
        return PodDescriptor.model_validate_json(body).error
    except ValidationError:  # the answer of some other program
        return None
