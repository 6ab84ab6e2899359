"""Conversations: messages of text or of parts (notes §2.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator
from pydantic.config import JsonDict

from pumas_server.contract.complaint import Complaint, tag
from pumas_server.contract.parts import Part, Parts, TextPart
from pumas_server.contract.records import Strict, Text


def _content_tag(value: Any) -> str:
    return tag("parts" if isinstance(value, list | tuple) else "string")


#: Media are for users only, as JSON Schema says it.
_TEXT_UNLESS_OF_USER: JsonDict = {
    "if": {"properties": {"role": {"enum": ["system", "assistant"]}}},
    "then": {
        "properties": {"content": {"items": {"properties": {"kind": {"const": "text"}}}}},
    },
}


class Message(Strict):
    """One turn of a conversation."""

    model_config = ConfigDict(json_schema_extra=_TEXT_UNLESS_OF_USER)

    role: Literal["system", "user", "assistant"]
    content: Annotated[
        Annotated[Text, Tag(tag("string"))] | Annotated[Parts, Tag(tag("parts"))],
        Discriminator(_content_tag),
    ]

    @model_validator(mode="after")
    def _media_from_users(self) -> Self:
        if self.role != "user" and any(not isinstance(part, TextPart) for part in self.parts()):
            raise Complaint(f"has media in a {self.role} message; only user messages may have it")
        return self

    def parts(self) -> Sequence[Part]:
        """The parts; none when the content is a string."""
        return () if isinstance(self.content, str) else self.content

    def text(self) -> str:
        """All text of the message; parts are joined without a separator."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


Messages = Annotated[list[Message], Field(min_length=1, fail_fast=True)]


def all_parts(messages: Sequence[Message]) -> Iterator[Part]:
    """Every part of every message."""
    for message in messages:
        yield from message.parts()
