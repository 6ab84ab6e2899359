"""The decoders agree with the walks, and the guard on memory is on everything that is accepted."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from pumas_server.contract.bounds import MAX_DECODE_BYTES, MAX_IMAGE_PIXELS, MAX_IMAGE_SIDE
from pumas_server.media.jpeg import Jpeg, read_jpeg
from pumas_server.media.png import DEPTHS, Png, PngHeader, read_png
from pumas_server.media.raster import (
    decode_jpeg,
    decode_png,
    jpeg_decode_bytes,
    png_decode_bytes,
)
from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import Stopped
from support.media_files import good_images, jpeg, png

SHAPES = [
    (width, height)
    for width in (1, 33, 1024, 2047, 2048, MAX_IMAGE_SIDE)
    for height in (min(MAX_IMAGE_SIDE, MAX_IMAGE_PIXELS // width),)
]


def never() -> None:
    """Nobody stops it."""


def decode(encoding: str, file: bytes) -> None:
    if encoding == "png":
        decode_png(file, read_png(file, never), never)
    else:
        decode_jpeg(file, read_jpeg(file, never))


def test_sound_files_decode_in_any_thread_without_a_warning() -> None:
    with warnings.catch_warnings(), ThreadPoolExecutor(4) as threads:
        warnings.simplefilter("error")
        list(threads.map(lambda each: decode(*each), list(good_images().values()) * 3))


@pytest.mark.parametrize(("width", "height"), SHAPES)
def test_no_file_within_the_bounds_reaches_the_guard(width: int, height: int) -> None:
    jpegs = [Jpeg(width, height, 4, progressive) for progressive in (False, True)]
    pngs = [
        Png(PngHeader(width, height, depth, colour, False), 0, (), ())
        for colour, depths in DEPTHS.items()
        for depth in depths
    ]
    needed = [*map(jpeg_decode_bytes, jpegs), *map(png_decode_bytes, pngs)]
    assert max(needed) <= MAX_DECODE_BYTES


def test_the_guard_holds_at_its_bound() -> None:
    photo, drawing = jpeg(progressive=True), png()
    frame, picture = read_jpeg(photo, never), read_png(drawing, never)
    needed = jpeg_decode_bytes(frame)
    assert needed == 3 * (40 * 24 + 2 * 64 * 32)
    decode_jpeg(photo, frame, guard=needed)
    with pytest.raises(Fault) as caught:
        decode_jpeg(photo, frame, guard=needed - 1)
    assert caught.value.rule is Rule.DECODE_BYTES
    needed = png_decode_bytes(picture)
    assert needed == 3 * 2 * 4 + 2 * 10
    decode_png(drawing, picture, never, guard=needed)
    with pytest.raises(Fault) as caught:
        decode_png(drawing, picture, never, guard=needed - 1)
    assert caught.value.rule is Rule.DECODE_BYTES


def test_what_a_decoder_warns_of_is_told() -> None:
    cut = jpeg()[:-200] + b"\xff\xd9"
    with pytest.raises(Fault) as caught:
        decode_jpeg(cut, read_jpeg(cut, never))
    assert caught.value.rule is Rule.PIXELS_DECODE
    assert "Corrupt JPEG data" in caught.value.words


def test_a_header_that_lies_to_us_is_noticed() -> None:
    with pytest.raises(Fault, match="PIXELS_DECODE: decodes to"):
        decode_jpeg(jpeg(), Jpeg(41, 24, 3, False))
    other = read_png(png(4, 2), never)
    with pytest.raises(Fault, match="PIXELS_DECODE"):
        decode_png(png(), Png(other.header, 0, other.data, read_png(png(), never).essential), never)


def test_pixels_that_do_not_unfold_are_a_fault() -> None:
    broken = bytearray(png(64, 64))
    at = broken.index(b"IDAT") + 4
    picture = read_png(bytes(broken), never)
    broken[at : at + 40] = bytes(40)
    with pytest.raises(Fault, match="PIXELS_DECODE"):
        decode_png(broken, picture, never)


def test_stops_when_told() -> None:
    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        decode_png(png(), read_png(png(), never), stop)
