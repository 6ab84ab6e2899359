"""The kinds of input (*Request grammar*), and what each amounts to in the words of the table.

Every input tells its `format`, the `modalities` that it carries, and its `measures` under the names
of the bounds that descriptors state: resolution needs no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Tag, model_validator
from pydantic.config import JsonDict

from pumas_server.contract.complaint import Complaint, tag
from pumas_server.contract.messages import Messages, all_parts
from pumas_server.contract.parts import Clip, Image, ImagePart, Parts, TextPart
from pumas_server.contract.questions import Question
from pumas_server.contract.records import Strict, Text, by_kind
from pumas_server.contract.words import Format


class TextInput(Strict):
    """One text."""

    kind: Literal["text"]
    text: Text

    def format(self) -> Format:
        """See the module."""
        return Format.TEXT

    def modalities(self) -> frozenset[str]:
        """See the module."""
        return frozenset({"text"})

    def measures(self) -> dict[str, int]:
        """See the module."""
        return _measures([self.text])


class TextBatchInput(Strict):
    """Several texts."""

    kind: Literal["text_batch"]
    texts: Annotated[list[Text], Field(min_length=1, fail_fast=True)]

    def format(self) -> Format:
        """See the module."""
        return Format.TEXT_BATCH

    def modalities(self) -> frozenset[str]:
        """See the module."""
        return frozenset({"text"})

    def measures(self) -> dict[str, int]:
        """See the module."""
        return _measures(self.texts)


class MessagesInput(Strict):
    """A conversation."""

    kind: Literal["messages"]
    messages: Messages

    def format(self) -> Format:
        """See the module. Any audio makes it a conversation with audio."""
        carried = self.modalities()
        if "audio" in carried:
            return Format.MESSAGES_AUDIO
        return Format.MESSAGES_IMAGE if "image" in carried else Format.MESSAGES_TEXT

    def modalities(self) -> frozenset[str]:
        """See the module."""
        media = {part.kind for part in all_parts(self.messages)}
        return frozenset({"text", *media})

    def measures(self) -> dict[str, int]:
        """See the module."""
        return {}


#: At least one message holds an image, as JSON Schema says it.
_HOLDS_AN_IMAGE: JsonDict = {
    "contains": {
        "properties": {
            "content": {
                "type": "array",
                "contains": {"properties": {"kind": {"const": "image"}}},
            }
        }
    }
}


class ImageMessagesInput(MessagesInput):
    """A conversation with at least one image."""

    kind: Literal["image_messages"]  # type: ignore[assignment]
    messages: Annotated[Messages, Field(json_schema_extra=_HOLDS_AN_IMAGE)]

    @model_validator(mode="after")
    def _shows_an_image(self) -> Self:
        if not any(isinstance(part, ImagePart) for part in all_parts(self.messages)):
            raise Complaint("of kind image_messages holds no image")
        return self


class ImageInput(Image):
    """One image."""

    kind: Literal["image"]

    def format(self) -> Format:
        """See the module."""
        return Format.PNG_BASE64 if self.encoding == "png" else Format.JPEG_BASE64

    def modalities(self) -> frozenset[str]:
        """See the module."""
        return frozenset({"image"})

    def measures(self) -> dict[str, int]:
        """See the module."""
        return {"input_count": 1}


class ContentItem(Strict):
    """What becomes one vector."""

    parts: Parts


class ContentBatchInput(Strict):
    """Several items of mixed content."""

    kind: Literal["content_batch"]
    items: Annotated[list[ContentItem], Field(min_length=1, fail_fast=True)]

    def format(self) -> Format:
        """See the module."""
        return Format.CONTENT_BATCH

    def modalities(self) -> frozenset[str]:
        """See the module."""
        return frozenset(part.kind for item in self.items for part in item.parts)

    def measures(self) -> dict[str, int]:
        """See the module."""
        parts = (part for item in self.items for part in item.parts)
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        return _measures(texts) | {"input_count": len(self.items)}


class DecisionInput(Strict):
    """A state, and questions about it."""

    kind: Literal["decision"]
    state: Any
    questions: Annotated[dict[str, Question], Field(min_length=1, fail_fast=True)]
    images: Annotated[list[Image], Field(fail_fast=True)] | None = None
    audio: Annotated[list[Clip], Field(fail_fast=True)] | None = None

    def format(self) -> Format:
        """See the module."""
        return Format.DECISION

    def modalities(self) -> frozenset[str]:
        """See the module."""
        media = {"image": self.images, "audio": self.audio}
        return frozenset({"text", *(word for word, found in media.items() if found)})

    def measures(self) -> dict[str, int]:
        """See the module."""
        return {}


class RerankInput(Strict):
    """A query, and documents to order by it."""

    kind: Literal["rerank"]
    query: Text
    documents: Annotated[list[Text], Field(min_length=1, fail_fast=True)]

    def format(self) -> Format:
        """See the module."""
        return Format.RERANK

    def modalities(self) -> frozenset[str]:
        """See the module."""
        return frozenset({"text"})

    def measures(self) -> dict[str, int]:
        """See the module. What is counted are the documents; the query's characters count too."""
        return _measures([self.query, *self.documents]) | {"input_count": len(self.documents)}


class AudioInput(Clip):
    """One clip: reserved for transcription and classification."""

    kind: Literal["audio"]

    def format(self) -> Format:
        """See the module."""
        return Format.PCM_S16LE if self.encoding == "pcm_s16le" else Format.PCM_F32LE

    def modalities(self) -> frozenset[str]:
        """See the module."""
        return frozenset({"audio"})

    def measures(self) -> dict[str, int]:
        """See the module."""
        return {}


def _measures(texts: Sequence[str]) -> dict[str, int]:
    return {"input_count": len(texts), "input_characters": sum(map(len, texts))}


AnyInput = (
    TextInput
    | TextBatchInput
    | MessagesInput
    | ImageMessagesInput
    | ImageInput
    | ContentBatchInput
    | DecisionInput
    | RerankInput
    | AudioInput
)

Input = Annotated[
    Annotated[TextInput, Tag(tag("text"))]
    | Annotated[TextBatchInput, Tag(tag("text_batch"))]
    | Annotated[MessagesInput, Tag(tag("messages"))]
    | Annotated[ImageMessagesInput, Tag(tag("image_messages"))]
    | Annotated[ImageInput, Tag(tag("image"))]
    | Annotated[ContentBatchInput, Tag(tag("content_batch"))]
    | Annotated[DecisionInput, Tag(tag("decision"))]
    | Annotated[RerankInput, Tag(tag("rerank"))]
    | Annotated[AudioInput, Tag(tag("audio"))],
    by_kind(
        "text",
        "text_batch",
        "messages",
        "image_messages",
        "image",
        "content_batch",
        "decision",
        "rerank",
        "audio",
    ),
]
