"""What the router itself refuses on the OpenAI routes: which status, which code, in which words.

409 says that a model is not loaded and no request loads it; 503 that it cannot be had now; 500 that
its file or its specification is at fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import PERMANENT_REASONS, LoadState
from pumas_server.contract.descriptors import Available, Descriptor, UnavailableReason
from pumas_server.contract.errors import Code, ContractError, Outcome
from pumas_server.contract.words import Capability
from pumas_server.router.catalog_row import Row

#: What stands on a refusal that was made before any provider could see a byte.
REFUSED_HEADERS = {"x-pumas-outcome": Outcome.NOT_ADMITTED.value, "x-should-retry": "false"}


class RouteError(Exception):
    """A refusal of the router's own on an OpenAI route."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(message)


def openai_error(status: int, code: str, message: str) -> bytes:
    """The OpenAI error shape."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


def as_route_error(error: ContractError) -> RouteError:
    """The same refusal, as an OpenAI client is told."""
    return RouteError(error.code.status, error.code, error.message)


def offers(
    descriptors: Iterable[Descriptor], capability: Capability, modalities: Iterable[str] = ()
) -> bool:
    """Whether the capability is available by these descriptors, and takes these modalities."""
    return any(
        d.capability is capability
        and isinstance(d.availability, Available)
        and {*modalities} <= {*d.input_modalities}
        for d in descriptors
    )


def load_failed(alias: str, fault: Fault) -> RouteError:
    """The refusal of a model that did not come to serve."""
    permanent = fault.reason in PERMANENT_REASONS
    why = f"{fault.reason}: {fault.message}"
    return RouteError(
        500 if permanent else 503, "model_load_failed", f"model `{alias}` failed: {why}"
    )


def require(row: Row, capability: Capability, path: str, modalities: Iterable[str] = ()) -> None:
    """Raise `RouteError` unless the model can be sent a request of this route now.

    `modalities` are kinds of content that it has to take beside.
    """
    descriptor = next(d for d in row.descriptors if d.capability is capability)
    availability = descriptor.availability
    if isinstance(availability, Available):
        if not {*modalities} <= {*descriptor.input_modalities}:
            raise _unserved(row, path)
        return
    why = "".join(f": {fault.reason}: {fault.message}" for fault in row.faults)
    match availability.reason:
        case UnavailableReason.MODEL_TASK_MISMATCH | UnavailableReason.UNSUPPORTED_ADAPTER:
            raise _unserved(row, path)
        case UnavailableReason.UNKNOWN_MODEL_TASK if row.targets:
            # Nothing says what an external server's model does: the server itself will.
            return
        case _:
            pass
    if row.load_state is LoadState.FAILED and row.error is not None:
        raise load_failed(row.alias, row.error)
    if row.asleep and row.facts.mode is None:
        raise RouteError(
            503, Code.CAPABILITY_UNAVAILABLE, f"the file of model `{row.alias}` is not known yet"
        )
    if row.load_state is LoadState.LOADED or row.external:
        raise RouteError(
            503, Code.CAPABILITY_UNAVAILABLE, f"model `{row.alias}` cannot be reached now{why}"
        )
    raise RouteError(409, "model_not_ready", f"model `{row.alias}` is {row.load_state}{why}")


def _unserved(row: Row, path: str) -> RouteError:
    return RouteError(400, "endpoint_unavailable", f"model `{row.alias}` does not serve {path}")
