"""What an endpoint says of itself, turned into the facts that capabilities are declared from. Pure.

A serving pod answers `/descriptor`; an `external` server answers `/v1/models`, which tells what it
tells: llama.cpp publishes an architecture, others a bare list, and then the recorded task speaks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pumas_crds.facts import PodDescriptor, PodState
from pumas_crds.vocabulary import EngineMode, Task
from pumas_server.capabilities import Facts
from pumas_server.capabilities.declare import TASK_CAPABILITIES
from pumas_server.capabilities.rows import ROW_OF
from pumas_server.contract.descriptors import Modalities
from pumas_server.contract.words import Capability
from pumas_server.router.source import Endpoint, ModelRecord

#: What llama.cpp's server says of who owns its entries.
LLAMA_CPP = "llamacpp"


@dataclass(frozen=True, slots=True)
class Observation:
    """What one endpoint said last."""

    facts: Facts = field(default_factory=Facts)
    boot_id: str = ""
    """Which start of the engine said it; empty for an external server."""
    slots: int = 0
    """0 when it does not say."""
    problem: str = ""
    """Why it cannot serve, in one sentence; empty when it can."""


UNOBSERVED = Observation()

_WORDS = 16
_WORD_CHARACTERS = 128

#: Model uid, endpoint uid, endpoint URL: one server may be asked on behalf of several models.
ObservationKey = tuple[str, str, str]


def key_of(record: ModelRecord, endpoint: Endpoint) -> ObservationKey:
    """Under which an endpoint's observation is kept, whether it is ready or not."""
    return (record.model.metadata.uid, endpoint.uid, endpoint.url)


def unready(said: Observation) -> Observation:
    """The same of an endpoint that cannot be called, whatever it says."""
    return replace(said, facts=replace(said.facts, ready=False))


def observe_pod(descriptor: PodDescriptor) -> Observation:
    """The observation that a serving pod's descriptor amounts to."""
    runtime = descriptor.runtime
    return Observation(
        facts=Facts(
            ready=descriptor.state is PodState.READY,
            mode=descriptor.mode,
            modalities=Modalities(
                input=runtime.input_modalities if runtime else (),
                output=runtime.output_modalities if runtime else (),
            ),
            context_tokens=(runtime.context_tokens or None) if runtime else None,
            embedding_width=(runtime.embedding_width or None) if runtime else None,
            limits=(runtime.limits or ()) if runtime else (),
        ),
        boot_id=descriptor.boot_id,
        slots=runtime.slots if runtime else 0,
        problem=descriptor.error.message if descriptor.error else "",
    )


def observe_external(body: Any, model: str, task: Task | None) -> Observation:
    """The observation that an external server's `/v1/models` amounts to.

    A server that lists several models and not this one does not serve it. A single entry is taken
    whatever its name when llama.cpp lists it: its server holds one model and answers to any name.
    """
    entries = body.get("data") if isinstance(body, dict) else None
    if not isinstance(entries, list):
        return Observation(problem="its /v1/models is no list of models")
    named = [entry for entry in entries if isinstance(entry, dict)]
    entry = next((e for e in named if _names(e, model)), None) or _only_of_its_engine(named)
    if entry is None:
        return Observation(problem="it does not list the model")
    modalities = _published(entry.get("architecture"))
    decides = modalities is not None and "decisions" in modalities.output
    return Observation(
        facts=Facts(
            ready=True,
            mode=EngineMode.DECIDE if decides else None,
            modalities=_reported(modalities, decides, task),
            context_tokens=_count(entry.get("meta"), "n_ctx"),
            embedding_width=_count(entry.get("meta"), "n_embd") if _embeds(task) else None,
        )
    )


def _reported(published: Modalities | None, decides: bool, task: Task | None) -> Modalities:
    """In the contract's words: an engine says `text` of vectors and scores, and `decisions`."""
    expected = _modalities_of(task)
    if published is None:
        return expected
    if decides:
        return Modalities(input=published.input, output=("json",))
    if expected.output and "text" not in expected.output:
        return Modalities(input=published.input, output=expected.output)
    return published


def _only_of_its_engine(entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The one entry of an engine that answers to any name."""
    sole = entries[0] if len(entries) == 1 else None
    return sole if sole is not None and sole.get("owned_by") == LLAMA_CPP else None


def _names(entry: Mapping[str, Any], model: str) -> bool:
    # A name without a tag means its tag `latest`, where names have tags at all.
    aliases = entry.get("aliases")
    names = [entry.get("id"), *(aliases if isinstance(aliases, list) else [])]
    return model in names or f"{model}:latest" in names


def _published(architecture: Any) -> Modalities | None:
    if not isinstance(architecture, dict):
        return None
    takes, gives = architecture.get("input_modalities"), architecture.get("output_modalities")
    if not isinstance(takes, list) or not isinstance(gives, list):
        return None
    return Modalities(input=_words(takes), output=_words(gives))


def _words(told: list[Any]) -> tuple[str, ...]:
    """What can be a modality's name; a server that is not ours may say anything."""
    words = (word for word in told if isinstance(word, str) and word.isascii())
    return tuple(word[:_WORD_CHARACTERS] for word in words)[:_WORDS]


def _modalities_of(task: Task | None) -> Modalities:
    """The fixed set of a provider that publishes none: what the recorded task needs."""
    offered = TASK_CAPABILITIES.get(task, frozenset()) if task is not None else frozenset()
    rows = [row for capability, row in ROW_OF.items() if capability in offered]
    if not rows:
        return Modalities()
    gives = dict.fromkeys(word for row in rows for word in row.produces)
    return Modalities(input=("text",), output=tuple(gives))


def _embeds(task: Task | None) -> bool:
    return task is not None and Capability.TEXT_EMBEDDING in TASK_CAPABILITIES.get(task, ())


def _count(meta: Any, name: str) -> int | None:
    count = meta.get(name) if isinstance(meta, dict) else None
    return count if type(count) is int and count > 0 else None
