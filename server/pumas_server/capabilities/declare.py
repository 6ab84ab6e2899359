"""What a served model offers: descriptors from what a team wrote and what a runtime says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import assert_never

from pumas_crds.facts import Limit
from pumas_crds.served_model import ServedModelSpec
from pumas_crds.vocabulary import EngineMode, Task
from pumas_server.capabilities.option_bounds import build_bounds
from pumas_server.capabilities.rows import ROWS, Row
from pumas_server.contract.descriptors import (
    Available,
    Descriptor,
    Modalities,
    Unavailable,
    UnavailableReason,
)
from pumas_server.contract.words import Capability


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a running model, however it was learned."""

    ready: bool = False
    """The runtime has answered and requests may be sent."""
    mode: EngineMode | None = None
    """What an engine of ours does; None for an external server, and before it is known."""
    modalities: Modalities = field(default_factory=Modalities)
    """As the runtime declares them; empty until it has answered."""
    context_tokens: int | None = None
    """Context of one slot."""
    embedding_width: int | None = None
    """Width of an embedder's vectors."""
    limits: tuple[Limit, ...] = ()
    """What the runtime states of its own limits."""
    expected_input: tuple[str, ...] = ()
    """What the model's files promise that it will take, for as long as no runtime has told."""

    @property
    def takes(self) -> tuple[str, ...]:
        """Kinds of content that it takes, or will once it runs."""
        return self.modalities.input or self.expected_input


_TEXT = frozenset({Capability.CHAT_GENERATION, Capability.TEXT_GENERATION})
_VISION = _TEXT | {Capability.IMAGE_TO_TEXT}
_EMBEDDING = frozenset({Capability.TEXT_EMBEDDING})

#: What a recorded task offers. A task that is not here offers nothing of the contract.
TASK_CAPABILITIES: Mapping[Task, frozenset[Capability]] = {
    Task.TEXT_GENERATION: _TEXT,
    Task.TEXT2TEXT_GENERATION: _TEXT,
    Task.CONVERSATIONAL: _TEXT,
    Task.SUMMARIZATION: _TEXT,
    Task.TRANSLATION: _TEXT,
    Task.IMAGE_TEXT_TO_TEXT: _VISION,
    Task.ANY_TO_ANY: _VISION,
    Task.IMAGE_TO_TEXT: frozenset({Capability.IMAGE_TO_TEXT}),
    Task.FEATURE_EXTRACTION: _EMBEDDING,
    Task.SENTENCE_SIMILARITY: _EMBEDDING,
    Task.TEXT_RANKING: frozenset({Capability.RERANK}),
    Task.TEXT_TO_IMAGE: frozenset({Capability.IMAGE_GENERATION}),
    Task.AUTOMATIC_SPEECH_RECOGNITION: frozenset({Capability.AUDIO_TRANSCRIPTION}),
    Task.AUDIO_CLASSIFICATION: frozenset({Capability.AUDIO_CLASSIFICATION}),
}


#: So many different ones are kept: of a thousand models most say the same, and making descriptors
#: is most of the time that listing them takes.
_KEPT = 1024


def declare(spec: ServedModelSpec, facts: Facts) -> tuple[Descriptor, ...]:
    """The descriptors of all capabilities, in the contract's order, as observed now."""
    return _declare(spec.task, facts)


@lru_cache(_KEPT)
def _declare(task: Task | None, facts: Facts) -> tuple[Descriptor, ...]:
    offered = _offered(task, facts)
    return tuple(_descriptor(row, offered, facts) for row in ROWS)


def _offered(task: Task | None, facts: Facts) -> frozenset[Capability] | None:
    """What the model means to do; None while nothing tells. A recorded task comes first."""
    if facts.mode is EngineMode.DECIDE:
        # Native evidence: such an engine can do nothing else, and no task of the hub names it.
        return frozenset({Capability.DECISION})
    sees = "image" in facts.takes
    senses = sees or "audio" in facts.takes
    if task is not None:
        offered = TASK_CAPABILITIES.get(task, frozenset())
        if senses and Capability.TEXT_EMBEDDING in offered:
            offered |= {Capability.MULTIMODAL_EMBEDDING}
        return offered
    match facts.mode:
        case EngineMode.GENERATE:
            return _VISION if sees else _TEXT
        case EngineMode.EMBED:
            return _EMBEDDING | {Capability.MULTIMODAL_EMBEDDING} if senses else _EMBEDDING
        case EngineMode.RERANK:
            return frozenset({Capability.RERANK})
        case EngineMode.GENERATE_IMAGE:
            return frozenset({Capability.IMAGE_GENERATION})
        case None:
            if "text" not in facts.modalities.output:
                return None
            return _VISION if sees else _TEXT
        case _ as never:
            assert_never(never)


def _descriptor(row: Row, offered: frozenset[Capability] | None, facts: Facts) -> Descriptor:
    takes = tuple(m for m in row.carries if m in facts.modalities.input)
    reason = _unavailable(row, offered, facts)
    return Descriptor(
        capability=row.capability,
        semantic_task=row.semantic_task,
        input_formats=row.input_formats,
        output_formats=row.output_formats,
        input_modalities=takes,
        output_modalities=row.produces,
        streaming=row.streams and reason is None,
        availability=Available() if reason is None else Unavailable(reason=reason),
        option_bounds=build_bounds(
            row,
            takes,
            context_tokens=facts.context_tokens,
            embedding_width=facts.embedding_width,
            limits=facts.limits,
        ),
    )


def _unavailable(
    row: Row, offered: frozenset[Capability] | None, facts: Facts
) -> UnavailableReason | None:
    """The first question that is answered with no.

    What a model is for comes before what this release can do: a request for what the model never
    does is unsupported and not unavailable, before and after the adapter is built. Only audio is
    withheld from all models alike (*Endpoints*).
    """
    if row.missing is UnavailableReason.UNQUALIFIED_AUDIO_RUNTIME:
        return row.missing
    if offered is not None and row.capability not in offered:
        return UnavailableReason.MODEL_TASK_MISMATCH
    if not row.adapter:
        return row.missing
    if offered is None:
        return UnavailableReason.UNKNOWN_MODEL_TASK
    lacks = not {*row.requires} <= {*facts.modalities.input}
    if not facts.ready or not facts.modalities.input or lacks:
        return UnavailableReason.RUNTIME_UNAVAILABLE
    return None
