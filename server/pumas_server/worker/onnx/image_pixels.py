"""From an image in a `data:` URL to the numbers that a model takes: the steps of an `ImageRecipe`.

The format is looked at, not believed, and the size is checked before anything is decoded.
"""

from __future__ import annotations

import base64
import binascii
import io
import re

import numpy as np
from PIL import Image, UnidentifiedImageError

from pumas_server.worker.onnx.image_recipe import ImageRecipe
from pumas_server.worker.onnx.pooling import Floats
from pumas_server.worker.onnx.served import Unfit

FORMATS = ("PNG", "JPEG")
#: What the contract lets through, and a bound on what one decoded image takes: 150 MB.
PIXELS_LIMIT = 50_000_000
#: A strip of an image that is resized to its shorter side becomes this long at most, before the
#: crop throws most of it away again.
RESIZED_PIXELS_LIMIT = 16_777_216
#: Pillow's own, lower limit is off: it warns, for all threads at once, where ours refuses.
Image.MAX_IMAGE_PIXELS = None
_URL = re.compile(r"data:image/[a-z]{1,16};base64,")


def read_image(url: str, where: str) -> Image.Image:
    """The image in a URL, decoded, in red, green and blue. Raises `Unfit`, naming `where`."""
    head = _URL.match(url)
    if head is None:
        raise Unfit(f"{where} must be a data: URL of a base64-encoded image")
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise Unfit(f"{where} is not base64-encoded") from None
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        width, height = image.size
        if width * height > PIXELS_LIMIT:
            raise Unfit(
                f"{where} has {width} x {height} pixels; the limit is {PIXELS_LIMIT} in all"
            )
        return image.convert("RGB")
    except UnidentifiedImageError:
        raise Unfit(f"{where} is no PNG or JPEG image") from None
    except (OSError, SyntaxError, ValueError):
        raise Unfit(f"{where} cannot be decoded") from None


def image_pixels(image: Image.Image, recipe: ImageRecipe, where: str) -> Floats:
    """The numbers of one image, as (3, height, width). Raises `Unfit` for a shape out of reason."""
    if (size := _resized(image, recipe)) is not None:
        if size[0] * size[1] > RESIZED_PIXELS_LIMIT:
            raise Unfit(
                f"{where} has {image.width} x {image.height} pixels: resized for the model it"
                f" has {size[0]} x {size[1]}; the limit is {RESIZED_PIXELS_LIMIT} in all"
            )
        image = image.resize(size, Image.Resampling(recipe.resampling))
    if recipe.crop is not None:
        image = _cropped(image, *recipe.crop)
    values = np.asarray(image, np.float32)
    if recipe.factor is not None:
        values = values * np.float32(recipe.factor)
    if recipe.mean is not None and recipe.deviation is not None:
        mean, deviation = np.array([recipe.mean, recipe.deviation], np.float32)
        values = (values - mean) / deviation
    return np.ascontiguousarray(values.transpose(2, 0, 1), np.float32)


def _resized(image: Image.Image, recipe: ImageRecipe) -> tuple[int, int] | None:
    """Width and height after resizing."""
    if recipe.size is not None:
        height, width = recipe.size
        return width, height
    if recipe.shortest_edge is None:
        return None
    short, long = sorted(image.size)
    edge, other = recipe.shortest_edge, int(recipe.shortest_edge * long / short)
    return (edge, other) if image.width <= image.height else (other, edge)


def _cropped(image: Image.Image, height: int, width: int) -> Image.Image:
    """The middle; what it is short of is black."""
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))
