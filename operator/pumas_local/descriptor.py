"""What a local pod says of itself."""

from __future__ import annotations

from pydantic import ValidationError

from pumas_crds.facts import PodDescriptor
from pumas_local.pod import LOOPBACK, Ports
from pumas_local.probe import fetch

TIMEOUT_SECONDS = 2.0


async def read_descriptor(ports: Ports) -> PodDescriptor | None:
    """Its `/descriptor`; None when the pod does not answer."""
    body = await fetch(LOOPBACK, ports.supervisor, "/descriptor", TIMEOUT_SECONDS)
    if body is None:
        return None
    try:
        return PodDescriptor.model_validate_json(body)
    except ValidationError:  # the answer of some other program
        return None
