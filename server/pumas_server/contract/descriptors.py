"""What discovery says of a model: descriptors, modalities, bounds (*Endpoints*, *Modalities*).

These types are the JSON of `/v1/served-models` and `/v1/capabilities`. They grow additively.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pumas_server.contract.bounds import (
    MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
    MAX_STREAM_EVENT_BYTES,
)
from pumas_server.contract.registry import SUPPORTED_CONTRACT_VERSIONS
from pumas_server.contract.words import Capability, Output, SemanticTask


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)


class UnavailableReason(StrEnum):
    """Why a capability cannot be used, in the order in which the questions are asked."""

    UNSUPPORTED_ADAPTER = "unsupported_adapter"
    UNQUALIFIED_AUDIO_RUNTIME = "unqualified_audio_runtime"
    MODEL_TASK_MISMATCH = "model_task_mismatch"
    UNKNOWN_MODEL_TASK = "unknown_model_task"
    RUNTIME_UNAVAILABLE = "runtime_unavailable"


class Available(_Record):
    """It can be used now."""

    state: Literal["available"] = "available"


class Unavailable(_Record):
    """It cannot be used now."""

    state: Literal["unavailable"] = "unavailable"
    reason: UnavailableReason


class OptionBound(_Record):
    """The range of one option or of one measure of the input."""

    option: str
    minimum: int | float
    maximum: int | float


class Modalities(_Record):
    """What a model's runtime declares to take and to give. Empty: it has not answered."""

    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


class Descriptor(_Record):
    """One capability of one served model, as observed now."""

    capability: Capability
    semantic_task: SemanticTask
    input_formats: tuple[str, ...]
    output_formats: tuple[Output, ...]
    input_modalities: tuple[str, ...]
    output_modalities: tuple[str, ...]
    streaming: bool
    availability: Available | Unavailable
    option_bounds: tuple[OptionBound, ...]


class RowError(_Record):
    """Additive: why a listed model cannot serve."""

    reason: str
    message: str


class ActivationEntry(_Record):
    """Additive: how a model that sleeps comes to be loaded."""

    on_demand: bool


ON_DEMAND = ActivationEntry(on_demand=True)


class ServedModelEntry(_Record):
    """One (alias, profile) pair in `/v1/served-models`."""

    model: str
    profile: str
    model_id: str
    provider: str
    load_state: str
    context_tokens: int | None = None
    profile_required: bool
    modalities: Modalities
    capabilities: tuple[Descriptor, ...]
    error: RowError | None = None
    activation: ActivationEntry | None = None


class ServedModels(_Record):
    """The body of `GET /v1/served-models`."""

    supported_contract_versions: tuple[int, ...] = SUPPORTED_CONTRACT_VERSIONS
    max_request_bytes: int = MAX_REQUEST_BYTES
    max_response_bytes: int = MAX_RESPONSE_BYTES
    max_stream_event_bytes: int = MAX_STREAM_EVENT_BYTES
    models: tuple[ServedModelEntry, ...]


class Capabilities(_Record):
    """The body of `GET /v1/capabilities`."""

    supported_contract_versions: tuple[int, ...] = SUPPORTED_CONTRACT_VERSIONS
    model: str
    profile: str
    max_request_bytes: int = MAX_REQUEST_BYTES
    max_response_bytes: int = MAX_RESPONSE_BYTES
    max_stream_event_bytes: int = MAX_STREAM_EVENT_BYTES
    context_tokens: int | None = None
    modalities: Modalities
    capabilities: tuple[Descriptor, ...]
    error: RowError | None = None
    activation: ActivationEntry | None = None


def render(body: BaseModel) -> bytes:
    """The JSON of a discovery body; members that are not known are left out."""
    return body.model_dump_json(exclude_none=True).encode()
