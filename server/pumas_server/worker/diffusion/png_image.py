"""From a decoder's output to the bytes of a PNG that is known to be one."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from pumas_server.worker.diffusion.no_image import NoImage

Pixels = npt.NDArray[np.uint8]
"""`[height, width, 3]`, red, green and blue."""


def build_pixels(decoded: npt.NDArray[np.float32]) -> Pixels:
    """Map `[1, 3, height, width]` from -1..1 to 0..255, what is outside cut off."""
    scaled = np.rint((decoded[0].transpose(1, 2, 0) * 0.5 + 0.5).clip(0.0, 1.0) * 255.0)
    pixels: Pixels = scaled.astype(np.uint8)
    return pixels


def encode_pixels(pixels: Pixels) -> bytes:
    """Encode without loss."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def build_png(pixels: Pixels, encode: Callable[[Pixels], bytes] = encode_pixels) -> bytes:
    """Encode, and check what came of it: raises `NoImage` as `check_png` does."""
    png = encode(pixels)
    check_png(png, pixels)
    return png


def check_png(png: bytes, pixels: Pixels) -> None:
    """Decode a PNG; raises `NoImage` unless it has this size and these very pixels."""
    height, width, _ = pixels.shape
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            if image.size != (width, height) or image.mode != "RGB":
                raise NoImage(f"the PNG is not {width}x{height} in colour")
            decoded = np.asarray(image)
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise NoImage("the PNG cannot be decoded") from error
    if not np.array_equal(decoded, pixels):
        raise NoImage("the PNG does not hold the image")
