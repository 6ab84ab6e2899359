"""The model object of the catalogue, from a model's record alone. Pure.

What it says follows from what the Kubernetes API holds (spec, status, readiness of addresses), so
that every router says the same of a model, before and after a restart; what a router has seen of
endpoints itself is not in it. Every member is there in every object, `error` excepted, which stands
in a model whose status is `error`: what is unknown is empty, 0 or false.

The server of an `external` model is not ours: it is neither loaded nor unloaded here, and `ready`
says that the model is accepted.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict, assert_never

from pumas_crds.facts import Fault
from pumas_crds.vocabulary import PERMANENT_REASONS, EngineMode, LoadState, Runtime
from pumas_server.capabilities import Facts, declare
from pumas_server.contract.descriptors import Available, UnavailableReason
from pumas_server.contract.redaction import redact_foreign
from pumas_server.contract.words import Capability
from pumas_server.router.last_facts import last_facts, select_runtime
from pumas_server.router.lmsp.problems import ProblemCode, problem_object
from pumas_server.router.source import ModelRecord


class RuntimeObject(TypedDict):
    """What runs the model."""

    backend: str
    device: str
    load_on_demand: bool


class ModelObject(TypedDict):
    """One model of the catalogue."""

    id: str
    object: str
    display_name: str
    aliases: list[str]
    owned_by: str
    family: str
    revision: str
    status: str
    capabilities: dict[str, bool]
    input_modalities: list[str]
    output_modalities: list[str]
    context_window: int
    max_output_tokens: int
    runtime: RuntimeObject
    error: NotRequired[dict[str, object]]


INSTALLED = "installed"
LOADING = "loading"
READY = "ready"
UNLOADING = "unloading"
ERROR = "error"


def build_model_object(record: ModelRecord, pages: str) -> ModelObject:
    """The object; `pages` is what the type of a problem is relative to."""
    model, spec = record.model, record.model.spec
    told, file = select_runtime(record), model.status.file
    facts = last_facts(record)
    offered = _offered(record, facts)
    writes = Capability.CHAT_GENERATION in offered or Capability.TEXT_GENERATION in offered
    context = facts.context_tokens or 0
    made: ModelObject = {
        "id": model.catalogue_id,
        "object": "model",
        "display_name": spec.catalogue.display_name or (file.name if file else "") or model.alias,
        "aliases": list(spec.catalogue.aliases),
        "owned_by": "local",
        "family": spec.catalogue.family or (file.architecture if file else ""),
        "revision": _revision(record),
        "status": _status(record),
        "capabilities": {
            "chat": Capability.CHAT_GENERATION in offered,
            "completion": Capability.TEXT_GENERATION in offered,
            "embeddings": Capability.TEXT_EMBEDDING in offered,
            "tools": _chats(offered) and told is not None and bool(told.tool_calls),
            "vision": _chats(offered) and "image" in facts.takes,
            "structured_output": _follows_grammar(record, facts),
            "streaming": writes,
        },
        # The only modality that the document defines, also for models that see.
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "context_window": context,
        "max_output_tokens": context if writes else 0,
        "runtime": {
            "backend": spec.runtime.value,
            "device": told.device if told else "",
            "load_on_demand": spec.effective_activation.on_demand,
        },
    }
    if made["status"] == ERROR:
        made["error"] = _load_failure(model.status.error, pages)
    return made


def with_state(made: ModelObject, state: LoadState, pages: str) -> ModelObject:
    """The same object with a transition already applied."""
    changed = made.copy()
    changed["status"] = _WORDS[state]
    if state is not LoadState.FAILED:
        changed.pop("error", None)
    elif "error" not in changed:
        changed["error"] = _load_failure(None, pages)
    return changed


_WORDS = {
    LoadState.UNLOADED: INSTALLED,
    LoadState.REQUESTED: LOADING,
    LoadState.LOADING: LOADING,
    LoadState.LOADED: READY,
    LoadState.UNLOADING: UNLOADING,
    LoadState.FAILED: ERROR,
}


def _status(record: ModelRecord) -> str:
    spec, status = record.model.spec, record.model.status
    if spec.suspend:
        # Whatever failed before: nothing of it is to be loaded. Its last pods may still be going.
        return UNLOADING if status.load_state is LoadState.UNLOADING else INSTALLED
    if spec.runtime is Runtime.EXTERNAL:
        return READY if status.error is None else ERROR
    if status.load_state is LoadState.LOADED and not any(e.ready for e in record.endpoints):
        return LOADING
    return _WORDS[status.load_state]


def _offered(record: ModelRecord, facts: Facts) -> frozenset[Capability]:
    """What the model is for: also what it offers as soon as its runtime answers."""
    return frozenset(
        descriptor.capability
        for descriptor in declare(record.model.spec, facts)
        if isinstance(descriptor.availability, Available)
        or descriptor.availability.reason is UnavailableReason.RUNTIME_UNAVAILABLE
    )


def _chats(offered: frozenset[Capability]) -> bool:
    return Capability.CHAT_GENERATION in offered


def _follows_grammar(record: ModelRecord, facts: Facts) -> bool:
    """Whether its engine can be held to a schema while it writes."""
    match record.model.spec.runtime:
        case Runtime.LLAMA_CPP:
            return facts.mode is EngineMode.GENERATE
        case Runtime.ONNX_RUNTIME | Runtime.EXTERNAL:
            return False
        case _ as never:
            assert_never(never)


def _revision(record: ModelRecord) -> str:
    """The digest of the weights, as it is demanded or as it was found."""
    spec, file = record.model.spec, record.model.status.file
    if spec.sha256:
        return f"sha256:{spec.sha256}"
    return file.digest if file else ""


def _load_failure(fault: Fault | None, pages: str) -> dict[str, object]:
    permanent = fault is not None and fault.reason in PERMANENT_REASONS
    return problem_object(
        pages,
        ProblemCode.MODEL_LOAD_FAILED,
        # A pod's own words are in it: what it should not have told is taken out once more.
        redact_foreign(fault.message if fault else "") or "The model could not be loaded.",
        status=500 if permanent else 503,
    )
