"""Sound files of every kind are taken, and other decoders see in them what we saw."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from pumas_server.media.image import check_image
from pumas_server.media.jpeg import read_jpeg
from pumas_server.media.png import read_png
from pumas_server.media.rules import Fault, Rule
from support.media_files import blank_png, good_images, jpeg

GOOD = good_images()


def never() -> None:
    """Nobody stops it."""


@pytest.mark.parametrize("name", GOOD)
def test_takes_every_kind(name: str) -> None:
    encoding, file = GOOD[name]
    check_image("png" if encoding == "png" else "jpeg", bytearray(file), never)


@pytest.mark.parametrize("name", GOOD)
def test_another_decoder_sees_the_same_size(name: str) -> None:
    encoding, file = GOOD[name]
    if encoding == "png":
        header = read_png(file, never).header
        size = header.width, header.height
    else:
        frame = read_jpeg(file, never)
        size = frame.width, frame.height
    with Image.open(BytesIO(file)) as image:
        image.load()
        assert image.size == size


@pytest.mark.parametrize(("width", "height"), [(4096, 1024), (1024, 4096), (2048, 2048)])
def test_takes_the_largest(width: int, height: int) -> None:
    check_image("png", blank_png(width, height), never)
    check_image("png", blank_png(width, height, colour=6, depth=16), never)
    check_image("jpeg", jpeg(width, height, mode="L"), never)


def test_the_largest_progressive_one_decodes() -> None:
    grey = Image.fromarray(np.full((2048, 2048, 3), 90, dtype=np.uint8))
    file = BytesIO()
    grey.save(file, "JPEG", progressive=True, subsampling=0)
    check_image("jpeg", file.getvalue(), never)


def test_says_what_it_holds_instead() -> None:
    with pytest.raises(Fault) as caught:
        check_image("png", jpeg(), never)
    assert caught.value.rule is Rule.DECLARED_ENCODING
    assert caught.value.words == "is declared png, but holds jpeg"
