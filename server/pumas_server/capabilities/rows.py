"""The contract's table of capabilities (*Endpoints*), as one literal table of rows.

To add a capability is to add a row here, its options to the grammar and its projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pumas_server.contract.bounds import PROMPT_CHARACTERS, TRANSCRIPTION_TOKENS, U32_MAX
from pumas_server.contract.descriptors import OptionBound, UnavailableReason
from pumas_server.contract.words import Capability, Format, OptionsKind, Output, SemanticTask


@dataclass(frozen=True, slots=True)
class Row:
    """One capability of the contract."""

    capability: Capability
    semantic_task: SemanticTask
    input_formats: tuple[Format, ...]
    """As advertised."""
    output_formats: tuple[Output, ...]
    carries: tuple[str, ...]
    """Modalities that its protocol can carry in this release."""
    produces: tuple[str, ...]
    options: OptionsKind
    also_accepts: tuple[Format, ...] = ()
    """Formats taken beside the advertised ones: a text is sent to chat as one user message."""
    accepts_when_named: tuple[Format, ...] = ()
    """Formats taken only when the request names this capability or its semantic task, because
    another capability has them otherwise."""
    adapter: bool = False
    """Whether this release can carry it out."""
    streams: bool = False
    missing: UnavailableReason = UnavailableReason.UNSUPPORTED_ADAPTER
    """Why it is unavailable while `adapter` is False."""
    fixed_bounds: tuple[OptionBound, ...] = ()
    """Bounds that hold where the runtime states none of its own (`measures`)."""
    requires: tuple[str, ...] = ()
    """Modalities without which it is nothing: a model that lacks one is not ready for it."""
    measures: tuple[str, ...] = ()
    """Options and measures of its input whose bounds the runtime states."""

    def accepts(self, format_: Format, *, named: bool) -> bool:
        """Whether an input of that format can be this capability's."""
        taken = self.input_formats + self.also_accepts
        return format_ in (taken + self.accepts_when_named if named else taken)


_IMAGES = (Format.PNG_BASE64, Format.JPEG_BASE64)
_AUDIO = (Format.PCM_S16LE, Format.PCM_F32LE)

ROWS: tuple[Row, ...] = (
    Row(
        Capability.CHAT_GENERATION,
        SemanticTask.CHAT_GENERATION,
        (Format.MESSAGES_TEXT,),
        (Output.TEXT,),
        carries=("text", "image", "audio"),
        produces=("text",),
        options=OptionsKind.TEXT_GENERATION,
        also_accepts=(Format.TEXT, Format.MESSAGES_AUDIO),
        accepts_when_named=(Format.MESSAGES_IMAGE,),
        adapter=True,
        streams=True,
    ),
    Row(
        Capability.TEXT_GENERATION,
        SemanticTask.TEXT_GENERATION,
        (Format.TEXT,),
        (Output.TEXT,),
        carries=("text",),
        produces=("text",),
        options=OptionsKind.TEXT_GENERATION,
        adapter=True,
        streams=True,
    ),
    Row(
        Capability.TEXT_EMBEDDING,
        SemanticTask.TEXT_EMBEDDING,
        (Format.TEXT, Format.TEXT_BATCH),
        (Output.EMBEDDINGS_FLOAT32,),
        carries=("text",),
        produces=("vector",),
        options=OptionsKind.EMBEDDINGS,
        adapter=True,
        measures=("input_count", "input_characters", "input_tokens"),
    ),
    Row(
        Capability.IMAGE_GENERATION,
        SemanticTask.TEXT_TO_IMAGE,
        (Format.TEXT,),
        (Output.PNG_BASE64,),
        carries=("text",),
        produces=("image",),
        options=OptionsKind.IMAGE_GENERATION,
        adapter=True,
        fixed_bounds=(
            OptionBound(option="width", minimum=1, maximum=U32_MAX),
            OptionBound(option="height", minimum=1, maximum=U32_MAX),
            OptionBound(option="seed", minimum=0, maximum=U32_MAX),
            OptionBound(option="input_characters", minimum=1, maximum=PROMPT_CHARACTERS),
        ),
        measures=("width", "height", "seed", "input_characters"),
    ),
    Row(
        Capability.AUDIO_TRANSCRIPTION,
        SemanticTask.SPEECH_TO_TEXT,
        _AUDIO,
        (Output.TEXT,),
        carries=("audio",),
        produces=("text",),
        options=OptionsKind.AUDIO_TRANSCRIPTION,
        missing=UnavailableReason.UNQUALIFIED_AUDIO_RUNTIME,
        fixed_bounds=(
            OptionBound(
                option="max_output_tokens",
                minimum=TRANSCRIPTION_TOKENS,
                maximum=TRANSCRIPTION_TOKENS,
            ),
        ),
    ),
    Row(
        Capability.AUDIO_CLASSIFICATION,
        SemanticTask.AUDIO_CLASSIFICATION,
        _AUDIO,
        (Output.LABELS,),
        carries=("audio",),
        produces=("json",),
        options=OptionsKind.AUDIO_TRANSCRIPTION,
        missing=UnavailableReason.UNQUALIFIED_AUDIO_RUNTIME,
    ),
    Row(
        Capability.IMAGE_TO_TEXT,
        SemanticTask.IMAGE_TO_TEXT,
        (*_IMAGES, Format.MESSAGES_IMAGE),
        (Output.TEXT,),
        carries=("text", "image"),
        produces=("text",),
        options=OptionsKind.TEXT_GENERATION,
        adapter=True,
        requires=("image",),
    ),
    Row(
        Capability.MULTIMODAL_EMBEDDING,
        SemanticTask.MULTIMODAL_EMBEDDING,
        (*_IMAGES, Format.CONTENT_BATCH),
        (Output.EMBEDDINGS_FLOAT32,),
        carries=("text", "image", "audio"),
        produces=("vector",),
        options=OptionsKind.EMBEDDINGS,
        adapter=True,
        measures=("input_count", "input_characters", "input_tokens"),
    ),
    Row(
        Capability.DECISION,
        SemanticTask.DECISION,
        (Format.DECISION,),
        (Output.DECISIONS,),
        carries=("text", "image", "audio"),
        produces=("json",),
        options=OptionsKind.DECISION,
        adapter=True,
    ),
    Row(
        Capability.RERANK,
        SemanticTask.RERANK,
        (Format.RERANK,),
        (Output.RELEVANCE_SCORES,),
        carries=("text",),
        produces=("json",),
        options=OptionsKind.RERANK,
        adapter=True,
        measures=("input_count", "input_characters", "input_tokens"),
    ),
)

ROW_OF: Mapping[Capability, Row] = {row.capability: row for row in ROWS}
