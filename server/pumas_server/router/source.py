"""ModelSource: how the router learns which models exist and which addresses answer for them.

One method wide. Implementations: in memory for local mode (`pumas_local.source`), the Kubernetes
API in a cluster. The router polls what the endpoints say of themselves; a source never does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from pumas_crds.served_model import ServedModel

#: Of the one endpoint of an external server, which has no pod that could tell it from another.
EXTERNAL_UID = "external"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address that may answer for a model: a serving pod's, or an `external` server's."""

    uid: str
    """The pod's uid; for an external server `EXTERNAL_UID`."""
    url: str
    """Root of the OpenAI dialect, without a trailing slash; `/v1/…` is appended."""
    supervisor_url: str | None
    """Root of the pod's supervisor; None for an external server, which has none."""
    ready: bool
    """Whether requests may be sent there. Facts are asked of endpoints that are not ready too."""
    api_key: str | None = field(default=None, repr=False)
    """Sent as a bearer token; the caller's own Authorization never is."""


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """One ServedModel with its status and addresses, as of now."""

    model: ServedModel
    spec_hash: str
    endpoints: tuple[Endpoint, ...]


class ModelSource(Protocol):
    """Where model records come from."""

    def watch(self) -> AsyncIterator[tuple[ModelRecord, ...]]:
        """Yield the whole present listing at once, then the whole listing after every change.

        Changes that happen while the consumer is busy are coalesced. Each call is a new watch.
        """
        ...
