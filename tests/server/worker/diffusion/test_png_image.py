"""Pixels, and the PNG of them."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from pumas_server.worker.diffusion.no_image import NoImage
from pumas_server.worker.diffusion.png_image import (
    Pixels,
    build_pixels,
    build_png,
    check_png,
    encode_pixels,
)


def pixels(height: int = 3, width: int = 5) -> Pixels:
    return np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)


def test_minus_one_to_one_is_black_to_white_and_what_is_outside_is_cut() -> None:
    decoded = np.zeros((1, 3, 2, 4), np.float32)
    decoded[0, 0] = [[-1, 1, 0, 0.5], [-9, 9, -0.5, 1e30]]
    result = build_pixels(decoded)
    assert (result.shape, result.dtype) == ((2, 4, 3), np.uint8)
    assert result[..., 0].tolist() == [[0, 255, 128, 191], [0, 255, 64, 255]]
    assert (result[..., 1:] == 128).all()


def test_the_png_holds_the_very_pixels() -> None:
    image = pixels()
    with Image.open(io.BytesIO(build_png(image))) as decoded:
        assert (decoded.format, decoded.mode, decoded.size) == ("PNG", "RGB", (5, 3))
        np.testing.assert_array_equal(np.asarray(decoded), image)


def test_a_png_that_is_another_or_none_is_found() -> None:
    image = pixels()
    png = build_png(image)
    check_png(png, image)
    other = image.copy()
    other[0, 0, 0] ^= 1
    with pytest.raises(NoImage, match="does not hold the image"):
        check_png(png, other)
    with pytest.raises(NoImage, match="not 3x5 in colour"):
        check_png(png, pixels(5, 3))
    for broken in (
        b"",
        png[:-30],
        png[: len(png) // 2],
        b"\x00" + png[1:],
        png[:40] + b"\x00" + png[41:],
    ):
        with pytest.raises(NoImage, match="cannot be decoded"):
            check_png(broken, image)


def test_a_png_is_checked_before_it_is_given() -> None:
    with pytest.raises(NoImage, match="cannot be decoded"):
        build_png(pixels(), lambda image: encode_pixels(image)[:-30])
    with pytest.raises(NoImage, match="does not hold the image"):
        build_png(pixels(), lambda image: encode_pixels(255 - image))


def test_a_jpeg_is_no_png() -> None:
    stream = io.BytesIO()
    Image.fromarray(pixels()).save(stream, "JPEG")
    with pytest.raises(NoImage, match="cannot be decoded"):
        check_png(stream.getvalue(), pixels())
