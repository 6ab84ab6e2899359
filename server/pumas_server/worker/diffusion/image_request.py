"""Reads the body of `POST /v1/images/generations`, before anything is computed.

A field that would change the image and is not known is refused by its name, and so is a value that
this engine cannot give: nobody gets an image other than the one that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumas_server.worker.diffusion.image_size import SIDES, Size, Sizes, read_size
from pumas_server.worker.legible import legible
from pumas_server.worker.onnx.served import Unfit

PROMPT_CHARACTERS = 4000
"""Code points, as the contract counts them."""
SEED_MAX = (1 << 32) - 1
_FIELDS = ("model", "n", "prompt", "response_format", "seed", "size", "user")


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """One image to be made."""

    prompt: str
    size: Size
    seed: int | None
    """None: any."""


def read_image_request(
    body: dict[str, object], sizes: Sizes, sides: tuple[str, str] = SIDES
) -> ImageRequest:
    """Read and check a body; raises `Unfit`, naming the field. Without a size it is the native.

    `sides` are the fields in which whoever is told wrote the width and the height.
    """
    for field, value in body.items():
        if field not in _FIELDS and value is not None:
            raise Unfit(f"{legible(field, 80)} is not supported")
    if (count := body.get("n")) is not None and (type(count) is not int or count != 1):
        raise Unfit("n must be 1")
    if body.get("response_format") not in (None, "b64_json"):
        raise Unfit("response_format must be b64_json")
    return ImageRequest(
        prompt=_read_prompt(body.get("prompt")),
        size=_read_size(body.get("size"), sizes, sides),
        seed=_read_seed(body.get("seed")),
    )


def _read_prompt(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit("prompt must be a string")
    if not 1 <= len(value) <= PROMPT_CHARACTERS:
        raise Unfit(f"prompt has {len(value)} characters; 1 to {PROMPT_CHARACTERS} are allowed")
    if value.isspace():
        raise Unfit("prompt is blank")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Unfit("prompt is not valid Unicode text")
    return value


def _read_size(value: object, sizes: Sizes, sides: tuple[str, str]) -> Size:
    if value is None:
        return sizes.native
    if not isinstance(value, str):
        raise Unfit("size must be a string")
    return sizes.check(read_size(value), sides)


def _read_seed(value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= SEED_MAX:
        raise Unfit(f"seed must be an integer of 0 to {SEED_MAX}")
    return value
