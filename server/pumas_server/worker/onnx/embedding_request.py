"""The body of `POST /v1/embeddings`, read: inputs, dimensions, the form of the answer. Pure.

Members that are not known are ignored, as the engine dialect has it; a known one of the wrong type
is refused. An input is a text, or an object whose `content` lists parts; parts are texts and
images in `data:` URLs. What the model does not take is refused by whoever computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pumas_server.worker.onnx.served import Limit, Unfit

INPUT_COUNT = 128
INPUT_CHARACTERS = 65_536
DIMENSIONS = 8192


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An encoded image, still in its URL."""

    url: str


Part = TextPart | ImagePart


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """What is asked for."""

    inputs: tuple[tuple[Part, ...], ...]
    dimensions: int | None
    base64: bool
    """Whether vectors are wanted as base64 of little-endian 32-bit numbers."""


def build_limits(width: int, tokens: int) -> tuple[Limit, ...]:
    """The ranges that hold for an embedder of this width; `tokens` 0 is no limit that is known."""
    limits = [
        Limit("input_count", 1, INPUT_COUNT),
        Limit("input_characters", 0, INPUT_CHARACTERS),
        Limit("dimensions", 1, min(DIMENSIONS, width)),
    ]
    return (*limits, Limit("input_tokens", 1, tokens)) if tokens else tuple(limits)


def read_embedding_request(body: dict[str, object], width: int) -> EmbeddingRequest:
    """The request to a model of this width. Raises `Unfit`."""
    if "input" not in body:
        raise Unfit('"input" must be provided')
    given = body["input"]
    items = given if isinstance(given, list) else [given]
    if not items:
        raise Unfit('"input" must not be empty')
    check_count(len(items))
    inputs = tuple(_item(item, position) for position, item in enumerate(items))
    parts = sum(map(len, inputs))
    if parts > INPUT_COUNT:
        raise Unfit(f'the parts of "input" are {parts}; the limit is {INPUT_COUNT}')
    check_characters(part.text for item in inputs for part in item if isinstance(part, TextPart))
    return EmbeddingRequest(inputs, _dimensions(body.get("dimensions"), width), _base64(body))


def check_count(found: int) -> None:
    """Refuse more inputs than one call may have. Raises `Unfit`."""
    if found > INPUT_COUNT:
        raise Unfit(f"input_count is {found}; the limit is {INPUT_COUNT}")


def check_characters(texts: Iterable[str]) -> None:
    """Refuse more text than one call may have. Raises `Unfit`."""
    characters = sum(map(len, texts))
    if characters > INPUT_CHARACTERS:
        raise Unfit(f"input_characters is {characters}; the limit is {INPUT_CHARACTERS}")


def _item(item: object, position: int) -> tuple[Part, ...]:
    where = f"input[{position}]"
    if isinstance(item, str):
        return (TextPart(item),)
    parts = item.get("content") if isinstance(item, dict) else None
    if isinstance(parts, str):
        return (TextPart(parts),)
    if not isinstance(parts, list) or not parts:
        raise Unfit(f'{where} must be a string or an object with a "content" of parts')
    return tuple(_part(part, f"{where}.content[{n}]") for n, part in enumerate(parts))


def _part(part: object, where: str) -> Part:
    if isinstance(part, dict):
        match part.get("type"), part.get("text"), part.get("image_url"):
            case "text", str(text), _:
                return TextPart(text)
            case "image_url", _, {"url": str(url)}:
                return ImagePart(url)
    raise Unfit(f"{where} must be a text or an image_url with a url")


def _dimensions(value: object, width: int) -> int | None:
    if value is None:
        return None
    limit = min(DIMENSIONS, width)
    if type(value) is not int or not 1 <= value <= limit:
        shown = value if type(value) is int and abs(value) < 1 << 63 else "no such number"
        raise Unfit(f"dimensions is {shown}; it must be 1 to {limit}")
    return value


def _base64(body: dict[str, object]) -> bool:
    match body.get("encoding_format"):
        case None | "float":
            return False
        case "base64":
            return True
        case _:
            raise Unfit('"encoding_format" must be "float" or "base64"')
