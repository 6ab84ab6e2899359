"""Parts of message content: text, image, audio (*Modalities*, notes §2.4 and §2.7).

Media parts are checked by shape here; what their bytes hold is not looked at.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, Tag, model_validator

from pumas_server.contract.bounds import (
    AUDIO_SECONDS_MAX,
    SAMPLE_RATE_MAX,
    SAMPLE_RATE_MIN,
    U32_MAX,
)
from pumas_server.contract.complaint import Complaint, tag
from pumas_server.contract.records import Strict, Text, by_kind

Base64 = Annotated[str, Field(min_length=1)]


class TextPart(Strict):
    """A piece of message text."""

    kind: Literal["text"]
    text: Text


class Image(Strict):
    """An encoded image."""

    encoding: Literal["png", "jpeg"]
    data_base64: Base64


class ImagePart(Image):
    """An image in a message."""

    kind: Literal["image"]


class Clip(Strict):
    """Raw little-endian PCM."""

    encoding: Literal["pcm_s16le", "pcm_f32le"]
    sample_rate_hz: Annotated[int, Field(ge=SAMPLE_RATE_MIN, le=SAMPLE_RATE_MAX)]
    channels: Annotated[int, Field(ge=1, le=2)]
    sample_count: Annotated[
        int,
        Field(
            ge=1,
            le=U32_MAX,
            json_schema_extra={"maximum": AUDIO_SECONDS_MAX * SAMPLE_RATE_MAX},
        ),
    ]
    data_base64: Base64

    @model_validator(mode="after")
    def _not_too_long(self) -> Self:
        if self.sample_count > AUDIO_SECONDS_MAX * self.sample_rate_hz:
            raise Complaint(
                f"holds {self.sample_count} samples at {self.sample_rate_hz} Hz; "
                f"at most {AUDIO_SECONDS_MAX} seconds are allowed"
            )
        return self


class AudioPart(Clip):
    """A clip in a message."""

    kind: Literal["audio"]


Part = Annotated[
    Annotated[TextPart, Tag(tag("text"))]
    | Annotated[ImagePart, Tag(tag("image"))]
    | Annotated[AudioPart, Tag(tag("audio"))],
    by_kind("text", "image", "audio"),
]

Parts = Annotated[list[Part], Field(min_length=1, fail_fast=True)]
