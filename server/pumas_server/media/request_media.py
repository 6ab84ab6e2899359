"""The media of one request: what it holds, whether all of it is sound, and what goes upstream.

Two steps, because they cost so differently: `gather` counts, and refuses by numbers that are at
hand; it is for the event loop. `check` decodes; it is for a thread, and can be told to stop.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import assert_never

from pumas_server.contract import bounds
from pumas_server.contract.inputs import (
    AnyInput,
    AudioInput,
    ContentBatchInput,
    DecisionInput,
    ImageInput,
    MessagesInput,
    RerankInput,
    TextBatchInput,
    TextInput,
)
from pumas_server.contract.parts import Clip, Image
from pumas_server.contract.request import Operation
from pumas_server.media.canonical_base64 import decode, decoded_size
from pumas_server.media.image import check_image
from pumas_server.media.pcm import check_samples, check_size
from pumas_server.media.rules import Fault, Rule, check_bound
from pumas_server.media.stopping import Checkpoint, build_checkpoint
from pumas_server.media.wav import build_header

_WHOLE = "input"


@dataclass(frozen=True, slots=True)
class PlacedImage:
    """An image, and where it stands in the caller's document."""

    place: str
    image: Image


@dataclass(frozen=True, slots=True)
class PlacedClip:
    """A clip, and where it stands in the caller's document."""

    place: str
    clip: Clip


@dataclass(frozen=True, slots=True)
class Media:
    """All media of a request, in the order of its document. Their numbers are within bounds."""

    images: tuple[PlacedImage, ...]
    clips: tuple[PlacedClip, ...]

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        return bool(self.images or self.clips)


@dataclass(frozen=True, slots=True)
class CheckedImage:
    """An image as it goes upstream: the caller's own text."""

    place: str
    mime: str
    base64: str

    @property
    def data_url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.mime};base64,{self.base64}"


@dataclass(frozen=True, slots=True)
class CheckedClip:
    """A clip as it goes upstream: a WAV file, of which the samples are the caller's own text."""

    place: str
    header_base64: str
    samples_base64: str

    @property
    def wav_base64(self) -> str:
        """The base64 of the file (see `wav`)."""
        return self.header_base64 + self.samples_base64


@dataclass(frozen=True, slots=True)
class CheckedMedia:
    """What became of `Media`: as many, in the same order."""

    images: tuple[CheckedImage, ...]
    clips: tuple[CheckedClip, ...]


def gather(operation: Operation) -> Media:
    """The media of a request, counted and measured by the lengths of their texts.

    Takes microseconds. Raises `ContractError`: 413 for a count or a size over its bound, 400 for
    text that is no base64 by its length.
    """
    media = find_media(operation.input)
    with _placing(_WHOLE):
        _check_counts(operation.input, media)
    total = 0
    for image in media.images:
        with _placing(image.place):
            total += _image_bytes(image.image.data_base64)
        with _placing(_WHOLE):
            check_bound(Rule.TOTAL_IMAGE_BYTES, bounds.MAX_TOTAL_IMAGE_BYTES, total)
    total = 0
    for clip in media.clips:
        with _placing(clip.place):
            total += decoded_size(clip.clip.data_base64)
        with _placing(_WHOLE):
            check_bound(Rule.TOTAL_AUDIO_BYTES, bounds.MAX_TOTAL_AUDIO_BYTES, total)
    return media


def check(media: Media, stopped: Callable[[], bool]) -> CheckedMedia:
    """Look at every byte of what `gather` found. For a thread: it takes up to some seconds.

    `stopped` is asked between slices and between files, and ends the check with `Stopped`; one
    decoder's run on one image is not cut. Raises `ContractError` for media that break a rule: 413
    for an image with too many pixels, 400 for everything else.
    """
    checkpoint = build_checkpoint(stopped)
    return CheckedMedia(
        tuple(_check_image(each, checkpoint) for each in media.images),
        tuple(_check_clip(each, checkpoint) for each in media.clips),
    )


def find_media(source: AnyInput) -> Media:
    """The media of an input, in the order of the document; nothing is checked."""
    images: list[PlacedImage] = []
    clips: list[PlacedClip] = []
    for place, record in _walk(source):
        if isinstance(record, Image):
            images.append(PlacedImage(place, record))
        else:
            clips.append(PlacedClip(place, record))
    return Media(tuple(images), tuple(clips))


def _walk(source: AnyInput) -> Iterator[tuple[str, Image | Clip]]:
    match source:
        case TextInput() | TextBatchInput() | RerankInput():
            pass
        case ImageInput() | AudioInput():
            yield _WHOLE, source
        case MessagesInput():
            for i, message in enumerate(source.messages):
                for j, part in enumerate(message.parts()):
                    if isinstance(part, Image | Clip):
                        yield f"{_WHOLE}.messages[{i}].content[{j}]", part
        case ContentBatchInput():
            for i, item in enumerate(source.items):
                for j, part in enumerate(item.parts):
                    if isinstance(part, Image | Clip):
                        yield f"{_WHOLE}.items[{i}].parts[{j}]", part
        case DecisionInput():
            for i, image in enumerate(source.images or ()):
                yield f"{_WHOLE}.images[{i}]", image
            for i, clip in enumerate(source.audio or ()):
                yield f"{_WHOLE}.audio[{i}]", clip
        case _:
            assert_never(source)


@contextmanager
def _placing(place: str) -> Iterator[None]:
    """Makes of a `Fault` the refusal of what stands at `place`; it stays the refusal's cause."""
    try:
        yield
    except Fault as fault:
        raise fault.at(place) from fault


def _check_counts(source: AnyInput, media: Media) -> None:
    check_bound(Rule.IMAGE_COUNT, bounds.MAX_IMAGES, len(media.images))
    check_bound(Rule.AUDIO_COUNT, bounds.MAX_CLIPS, len(media.clips))
    if media.images and isinstance(source, MessagesInput):
        messages = source.messages
        check_bound(Rule.MESSAGE_COUNT, bounds.MAX_IMAGE_MESSAGES, len(messages))
        parts = sum(len(message.parts()) for message in messages)
        check_bound(Rule.CONTENT_PARTS, bounds.MAX_CONTENT_PARTS, parts)


def _image_bytes(text: str) -> int:
    """Decoded bytes of an image, by its text's length alone."""
    if len(text) > bounds.MAX_IMAGE_CHARACTERS:
        raise Fault(
            Rule.IMAGE_CHARACTERS,
            f"is over `image_bytes`: at most {bounds.MAX_IMAGE_BYTES} are allowed"
            f" ({bounds.MAX_IMAGE_CHARACTERS} characters), it has {len(text)} characters of base64",
        )
    size = decoded_size(text)
    check_bound(Rule.IMAGE_BYTES, bounds.MAX_IMAGE_BYTES, size)
    return size


def _check_image(placed: PlacedImage, checkpoint: Checkpoint) -> CheckedImage:
    encoding, text = placed.image.encoding, placed.image.data_base64
    with _placing(placed.place):
        check_image(encoding, decode(text, checkpoint), checkpoint)
    return CheckedImage(placed.place, f"image/{encoding}", text)


def _check_clip(placed: PlacedClip, checkpoint: Checkpoint) -> CheckedClip:
    clip = placed.clip
    with _placing(placed.place):
        check_size(clip, decoded_size(clip.data_base64))
        data = decode(clip.data_base64, checkpoint)
        if clip.encoding == "pcm_f32le":
            check_samples(data, checkpoint)
    header = b2a_base64(build_header(clip), newline=False).decode("ascii")
    return CheckedClip(placed.place, header, clip.data_base64)
