"""The contract's table of capabilities (*Endpoints*), as one literal table of rows.

To add a capability is to add a row here, its options to the grammar and its projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pumas_server.contract.descriptors import OptionBound, UnavailableReason
from pumas_server.contract.request import Capability, Output, SemanticTask


@dataclass(frozen=True, slots=True)
class Row:
    """One capability of the contract's table (*Endpoints*)."""

    capability: Capability
    semantic_task: SemanticTask
    input_formats: tuple[str, ...]
    output_formats: tuple[Output, ...]
    carries: tuple[str, ...]
    """Modalities that its protocol can carry."""
    produces: tuple[str, ...]
    options: str
    """Kind of its options."""
    also_accepts: tuple[str, ...] = ()
    """Formats taken beside the advertised ones: a text is sent to chat as one user message."""
    adapter: bool = False
    """Whether this release can carry it out."""
    streams: bool = False
    missing: UnavailableReason = UnavailableReason.UNSUPPORTED_ADAPTER
    """Why it is unavailable while `adapter` is False."""
    fixed_bounds: tuple[OptionBound, ...] = ()
    """Bounds that no model and no runtime changes."""

    def accepts(self, format_: str) -> bool:
        """Whether an input of that format can be this capability's."""
        return format_ in self.input_formats or format_ in self.also_accepts


_IMAGES = ("png_base64", "jpeg_base64")
_AUDIO = ("pcm_s16le", "pcm_f32le")

ROWS: tuple[Row, ...] = (
    Row(
        Capability.CHAT_GENERATION,
        SemanticTask.CHAT_GENERATION,
        ("messages_text",),
        (Output.TEXT,),
        carries=("text", "image", "audio"),
        produces=("text",),
        options="text_generation",
        also_accepts=("text", "messages_image"),
        adapter=True,
        streams=True,
    ),
    Row(
        Capability.TEXT_GENERATION,
        SemanticTask.TEXT_GENERATION,
        ("text",),
        (Output.TEXT,),
        carries=("text",),
        produces=("text",),
        options="text_generation",
        adapter=True,
        streams=True,
    ),
    Row(
        Capability.TEXT_EMBEDDING,
        SemanticTask.TEXT_EMBEDDING,
        ("text", "text_batch"),
        (Output.EMBEDDINGS_FLOAT32,),
        carries=("text",),
        produces=("vector",),
        options="embeddings",
    ),
    Row(
        Capability.IMAGE_GENERATION,
        SemanticTask.TEXT_TO_IMAGE,
        ("text",),
        (Output.PNG_BASE64,),
        carries=("text",),
        produces=("image",),
        options="image_generation",
    ),
    Row(
        Capability.AUDIO_TRANSCRIPTION,
        SemanticTask.SPEECH_TO_TEXT,
        _AUDIO,
        (Output.TEXT,),
        carries=("audio",),
        produces=("text",),
        options="audio_transcription",
        missing=UnavailableReason.UNQUALIFIED_AUDIO_RUNTIME,
        fixed_bounds=(OptionBound(option="max_output_tokens", minimum=512, maximum=512),),
    ),
    Row(
        Capability.AUDIO_CLASSIFICATION,
        SemanticTask.AUDIO_CLASSIFICATION,
        _AUDIO,
        (Output.LABELS,),
        carries=("audio",),
        produces=("json",),
        options="audio_transcription",
        missing=UnavailableReason.UNQUALIFIED_AUDIO_RUNTIME,
    ),
    Row(
        Capability.IMAGE_TO_TEXT,
        SemanticTask.IMAGE_TO_TEXT,
        (*_IMAGES, "messages_image"),
        (Output.TEXT,),
        carries=("text", "image"),
        produces=("text",),
        options="text_generation",
    ),
    Row(
        Capability.MULTIMODAL_EMBEDDING,
        SemanticTask.MULTIMODAL_EMBEDDING,
        (*_IMAGES, "content_batch"),
        (Output.EMBEDDINGS_FLOAT32,),
        carries=("text", "image", "audio"),
        produces=("vector",),
        options="embeddings",
    ),
    Row(
        Capability.DECISION,
        SemanticTask.DECISION,
        ("decision",),
        (Output.DECISIONS,),
        carries=("text", "image", "audio"),
        produces=("json",),
        options="decision",
    ),
    Row(
        Capability.RERANK,
        SemanticTask.RERANK,
        ("rerank",),
        (Output.RELEVANCE_SCORES,),
        carries=("text",),
        produces=("json",),
        options="rerank",
    ),
)

ROW_OF: Mapping[Capability, Row] = {row.capability: row for row in ROWS}
