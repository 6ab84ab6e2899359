"""The kinds of options (*Request grammar*). Members that are null count as absent."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from pumas_server.contract.bounds import TEMPERATURE_MAX, TOP_P_MAX, TRANSCRIPTION_TOKENS, U32_MAX
from pumas_server.contract.complaint import tag
from pumas_server.contract.records import Strict, by_kind

Count = Annotated[int, Field(ge=1, le=U32_MAX)]

Language = Literal[
    "en", "de", "fr", "it", "es", "pt", "el", "nl", "pl", "vi", "zh", "ar", "ja", "ko"
]


class TextOptions(Strict):
    """Options of what generates text."""

    kind: Literal["text_generation"]
    max_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=TEMPERATURE_MAX)] | None = None
    top_p: Annotated[float, Field(ge=0, le=TOP_P_MAX)] | None = None


class EmbeddingOptions(Strict):
    """Options of embeddings."""

    kind: Literal["embeddings"]
    dimensions: Count | None = None
    """Leading values to keep, renormalised."""


class ImageOptions(Strict):
    """Options of image generation. Width and height are required."""

    kind: Literal["image_generation"]
    width: Count
    height: Count
    seed: Annotated[int, Field(ge=0, le=U32_MAX)] | None = None


class DecisionOptions(Strict):
    """Decisions have no options yet."""

    kind: Literal["decision"]


class RerankOptions(Strict):
    """Options of reranking."""

    kind: Literal["rerank"]
    top_n: Count | None = None
    """How many of the best to keep."""


class AudioOptions(Strict):
    """Reserved for transcription."""

    kind: Literal["audio_transcription"]
    language: Language | None = None
    max_output_tokens: (
        Annotated[int, Field(ge=TRANSCRIPTION_TOKENS, le=TRANSCRIPTION_TOKENS)] | None
    ) = None


Options = Annotated[
    Annotated[TextOptions, Tag(tag("text_generation"))]
    | Annotated[EmbeddingOptions, Tag(tag("embeddings"))]
    | Annotated[ImageOptions, Tag(tag("image_generation"))]
    | Annotated[DecisionOptions, Tag(tag("decision"))]
    | Annotated[RerankOptions, Tag(tag("rerank"))]
    | Annotated[AudioOptions, Tag(tag("audio_transcription"))],
    by_kind(
        "text_generation",
        "embeddings",
        "image_generation",
        "decision",
        "rerank",
        "audio_transcription",
    ),
]
