"""Each step from an image to numbers, by its recipe."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pumas_server.worker.onnx.image_pixels import image_pixels, read_image
from pumas_server.worker.onnx.image_recipe import read_image_recipe

PLAIN = {"do_resize": False, "do_normalize": False, "do_rescale": False, "crop_size": 4}


def noise(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


def pixels(image: Image.Image, **config: Any) -> np.ndarray[Any, Any]:
    return image_pixels(image, read_image_recipe({**PLAIN, **config}), "image")


def test_the_middle_is_cut_out_and_what_is_missing_is_black() -> None:
    image = noise(9, 6)
    whole = np.asarray(image).transpose(2, 0, 1)
    assert (pixels(image) == whole[:, 1:5, 2:6]).all()
    small = pixels(noise(2, 6), crop_size={"height": 6, "width": 4})
    assert (small[:, :, 0] == 0).all() and (small[:, :, 3] == 0).all()
    assert (small[:, :, 1:3] == np.asarray(noise(2, 6)).transpose(2, 0, 1)).all()


@pytest.mark.parametrize("resample", range(6))
@pytest.mark.parametrize(
    ("size", "resized"), [((9, 5), (7, 4)), ((5, 9), (4, 7)), ((4, 4), (4, 4))]
)
def test_the_shorter_side_is_resized(
    size: tuple[int, int], resized: tuple[int, int], resample: int
) -> None:
    image = noise(*size)
    found = pixels(image, do_resize=True, size={"shortest_edge": 4}, resample=resample)
    wanted = image.resize(resized, Image.Resampling(resample))
    left, top = (resized[0] - 4) // 2, (resized[1] - 4) // 2
    whole = np.asarray(wanted).transpose(2, 0, 1)
    assert (found == whole[:, top : top + 4, left : left + 4]).all()


def test_both_sides_are_resized() -> None:
    config = {"do_resize": True, "size": {"height": 3, "width": 5}, "do_center_crop": False}
    found = pixels(noise(9, 9), **config, resample=2)
    assert found.shape == (3, 3, 5)
    wanted = noise(9, 9).resize((5, 3), Image.Resampling.BILINEAR)
    assert (found == np.asarray(wanted).transpose(2, 0, 1)).all()


def test_values_are_scaled_and_normalised() -> None:
    image = Image.new("RGB", (4, 4), (255, 0, 51))
    assert pixels(image, do_rescale=True)[:, 0, 0] == pytest.approx([1, 0, 0.2])
    found = pixels(
        image,
        do_rescale=True,
        do_normalize=True,
        image_mean=[0.5, 0.5, 0.2],
        image_std=[0.5, 0.25, 1],
    )
    assert found.dtype == np.float32
    assert found[:, 3, 3] == pytest.approx([1, -2, 0], abs=1e-6)


@pytest.mark.parametrize(
    ("mode", "form"),
    [
        ("RGB", "PNG"),
        ("RGBA", "PNG"),
        ("L", "PNG"),
        ("P", "PNG"),
        ("1", "PNG"),
        ("I;16", "PNG"),
        ("CMYK", "JPEG"),
        ("L", "JPEG"),
    ],
)
def test_every_kind_of_image_becomes_red_green_and_blue(mode: str, form: str) -> None:
    stored = io.BytesIO()
    Image.new(mode, (3, 2)).save(stored, form)
    url = f"data:image/{form.lower()};base64,{base64.b64encode(stored.getvalue()).decode()}"
    image = read_image(url, "image")
    assert (image.mode, image.size) == ("RGB", (3, 2))
