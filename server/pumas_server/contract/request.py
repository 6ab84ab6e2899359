"""The request grammar of contract v1 (*Request grammar*), as closed types.

`parse` takes a decoded document and returns an `Operation`, or raises `ContractError` with a
sentence that names the field. Unknown members are refused at every level; no value is coerced.

Input kinds, outputs and options that belong to capabilities without an adapter in this release
are known words: they parse to `Unread`, and resolution answers for them (503), not the grammar.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from pumas_server.contract.bounds import MAX_MODEL_BYTES, TEMPERATURE_MAX, TOP_P_MAX, U32_MAX
from pumas_server.contract.complaint import END, Complaint, explain, tag, unknown_field
from pumas_server.contract.errors import invalid


class Capability(StrEnum):
    """The capabilities of contract v1, in the order descriptors are listed."""

    CHAT_GENERATION = "chat_generation"
    TEXT_GENERATION = "text_generation"
    TEXT_EMBEDDING = "text_embedding"
    IMAGE_GENERATION = "image_generation"
    AUDIO_TRANSCRIPTION = "audio_transcription"
    AUDIO_CLASSIFICATION = "audio_classification"
    IMAGE_TO_TEXT = "image_to_text"
    MULTIMODAL_EMBEDDING = "multimodal_embedding"
    DECISION = "decision"
    RERANK = "rerank"


class SemanticTask(StrEnum):
    """What a capability means, independent of its protocol."""

    CHAT_GENERATION = "chat_generation"
    TEXT_GENERATION = "text_generation"
    TEXT_EMBEDDING = "text_embedding"
    TEXT_TO_IMAGE = "text_to_image"
    SPEECH_TO_TEXT = "speech_to_text"
    AUDIO_CLASSIFICATION = "audio_classification"
    IMAGE_TO_TEXT = "image_to_text"
    MULTIMODAL_EMBEDDING = "multimodal_embedding"
    DECISION = "decision"
    RERANK = "rerank"


class Output(StrEnum):
    """What a request asks to get."""

    TEXT = "text"
    EMBEDDINGS_FLOAT32 = "embeddings_float32"
    PNG_BASE64 = "png_base64"
    DECISIONS = "decisions"
    RELEVANCE_SCORES = "relevance_scores"
    LABELS = "labels"
    PCM_S16LE = "pcm_s16le"
    PCM_F32LE = "pcm_f32le"


def _nonblank(text: str) -> str:
    if not text.strip():
        raise Complaint("is blank")
    return text


def _no_null(value: Any) -> Any:
    # Members where absence and null differ: a caller who writes null meant something by it.
    if value is None:
        raise Complaint("is null; leave it out instead")
    return value


def _identity(model: str) -> str:
    if not model.strip() or model != model.strip():
        raise Complaint("is empty or has surrounding blanks")
    if len(model.encode()) > MAX_MODEL_BYTES:
        raise Complaint(f"is {len(model.encode())} bytes; at most {MAX_MODEL_BYTES} are allowed")
    if any(c < " " or "\x7f" <= c <= "\x9f" for c in model):
        raise Complaint("holds control characters")
    return model


Text = Annotated[str, AfterValidator(_nonblank)]


class Strict(BaseModel):
    """A closed record: nothing unknown, nothing coerced."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    _known: ClassVar[frozenset[str]]

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the names of the fields at hand."""
        super().__pydantic_init_subclass__(**kwargs)
        cls._known = frozenset(cls.model_fields)

    @model_validator(mode="before")
    @classmethod
    def _closed(cls, value: Any) -> Any:
        # The first unknown field is told and the rest not read: a body of a million of them (or
        # of a million bad items: `fail_fast`) would cost gigabytes of findings otherwise.
        if isinstance(value, dict) and not value.keys() <= cls._known:
            raise unknown_field(next(name for name in value if name not in cls._known))
        return value


class TextPart(Strict):
    """A piece of message text."""

    kind: Literal["text"]
    text: Text


class Unread(BaseModel):
    """A known word whose inside no adapter of this release reads."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    kind: str


UNREAD_PARTS = frozenset({"image", "audio"})
UNREAD_INPUTS = frozenset(
    {"text_batch", "image_messages", "image", "content_batch", "decision", "rerank", "audio"}
)
UNREAD_OPTIONS = frozenset(
    {"embeddings", "image_generation", "decision", "rerank", "audio_transcription"}
)


def _tagger(read: frozenset[str], unread: frozenset[str]) -> Any:
    """A discriminator by `kind` that knows the words we do not read."""

    def tag_of(value: Any) -> str | None:
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        if not isinstance(kind, str):
            return None
        return tag("unread") if kind in unread else tag(kind) if kind in read else None

    expected = ", ".join(sorted(read | unread))
    return Discriminator(
        tag_of,
        custom_error_type="kind",
        custom_error_message=f"needs a `kind`, one of: {expected}",
    )


Part = Annotated[
    Annotated[TextPart, Tag(tag("text"))] | Annotated[Unread, Tag(tag("unread"))],
    _tagger(frozenset({"text"}), UNREAD_PARTS),
]


def _content_tag(value: Any) -> str:
    return tag("parts" if isinstance(value, list | tuple) else "string")


class Message(Strict):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[
        Annotated[Text, Tag(tag("string"))]
        | Annotated[list[Part], Field(min_length=1, fail_fast=True), Tag(tag("parts"))],
        Discriminator(_content_tag),
    ]


class TextInput(Strict):
    """One text."""

    kind: Literal["text"]
    text: Text


class MessagesInput(Strict):
    """A conversation."""

    kind: Literal["messages"]
    messages: Annotated[list[Message], Field(min_length=1, fail_fast=True)]


Input = Annotated[
    Annotated[TextInput, Tag(tag("text"))]
    | Annotated[MessagesInput, Tag(tag("messages"))]
    | Annotated[Unread, Tag(tag("unread"))],
    _tagger(frozenset({"text", "messages"}), UNREAD_INPUTS),
]


class TextOptions(Strict):
    """Options of the text capabilities."""

    kind: Literal["text_generation"]
    max_tokens: Annotated[int, Field(ge=1, le=U32_MAX)] | None = None
    temperature: Annotated[float, Field(ge=0, le=TEMPERATURE_MAX)] | None = None
    top_p: Annotated[float, Field(ge=0, le=TOP_P_MAX)] | None = None


Options = Annotated[
    Annotated[TextOptions, Tag(tag("text_generation"))] | Annotated[Unread, Tag(tag("unread"))],
    _tagger(frozenset({"text_generation"}), UNREAD_OPTIONS),
]


class Operation(Strict):
    """One well-formed request of contract v1."""

    contract_version: Literal[1]
    request_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]{1,128}" + END)]
    model: Annotated[str, AfterValidator(_identity)]
    profile: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,128}" + END)] | None = None
    input: Input
    output: Annotated[Output, Field(strict=False)]
    capability: Annotated[
        Annotated[Capability, Field(strict=False)] | None, BeforeValidator(_no_null)
    ] = None
    semantic_task: Annotated[SemanticTask, Field(strict=False)] | None = None
    options: Options | None = None
    stream: Annotated[bool | None, BeforeValidator(_no_null)] = None


def parse(document: dict[str, Any]) -> Operation:
    """The operation that a decoded document asks for. Raises `ContractError` (400)."""
    try:
        return Operation.model_validate(document)
    except ValidationError as error:
        raise invalid(explain(error)) from None
