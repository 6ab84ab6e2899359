"""How long the pixels of a PNG are, for every shape; and what it costs to be lied to."""

from __future__ import annotations

import tracemalloc
import zlib
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.media.png import PngHeader, read_png
from pumas_server.media.png_stream import build_passes, check_stream
from pumas_server.media.rules import Fault, Rule
from support.media_files import END, KINDS, SAMPLES, assemble, chunk, data, header, pixels, rows


def never() -> None:
    """Nobody stops it."""


def check(file: bytes) -> None:
    check_stream(file, read_png(file, never), never)


@given(st.sampled_from(KINDS), st.booleans(), st.integers(1, 70), st.integers(1, 70))
def test_passes_are_what_counting_pixels_says(
    kind: tuple[int, int], interlaced: bool, width: int, height: int
) -> None:
    colour, depth = kind
    built = build_passes(PngHeader(width, height, depth, colour, interlaced))
    counted = list(rows(width, height, depth * SAMPLES[colour], int(interlaced)))
    starts = [0, *accumulate(1 + row for row in counted)]
    assert [at for each in built for at in range(each.begin, each.end, each.row)] == starts[:-1]
    assert built[-1].end == starts[-1]


@given(
    st.sampled_from(KINDS),
    st.integers(0, 1),
    st.integers(1, 20),
    st.integers(1, 20),
    st.data(),
)
def test_a_wrong_filter_is_found_in_any_row(
    kind: tuple[int, int], interlace: int, width: int, height: int, drawn: st.DataObject
) -> None:
    colour, depth = kind
    head = header(width, height, depth=depth, colour=colour, interlace=interlace)
    raw = bytearray(pixels(width, height, depth=depth, colour=colour, interlace=interlace))
    starts = [
        0,
        *accumulate(1 + n for n in rows(width, height, depth * SAMPLES[colour], interlace)),
    ]
    raw[drawn.draw(st.sampled_from(starts[:-1]))] = drawn.draw(st.integers(5, 255))
    plte = [chunk(b"PLTE", bytes(3))] if colour == 3 else []
    with pytest.raises(Fault) as caught:
        check(assemble(head, *plte, data(bytes(raw)), END))
    assert caught.value.rule is Rule.PNG_FILTER


@pytest.mark.parametrize("row", [0, 1, 21, 22, 500, 1023])
def test_a_wrong_filter_is_found_in_any_block(row: int) -> None:
    raw = bytearray(bytes(3001) * 1024)
    raw[row * 3001] = 5
    with pytest.raises(Fault) as caught:
        check(assemble(header(1000, 1024), data(bytes(raw)), END))
    assert caught.value.rule is Rule.PNG_FILTER


def test_what_unfolds_to_more_than_it_says_is_left_at_once() -> None:
    bomb = assemble(header(), data(bytes(64 << 20)), END)
    png = read_png(bomb, never)
    tracemalloc.start()
    try:
        with pytest.raises(Fault) as caught:
            check_stream(bomb, png, never)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.rule is Rule.PNG_PIXELS_NO_MORE
    assert peak < 1 << 20


@pytest.mark.parametrize("level", [0, 1, 9])
@pytest.mark.parametrize("window", [9, 15])
def test_reads_any_way_to_deflate(level: int, window: int) -> None:
    raw = pixels(300, 200, seed=3)
    deflater = zlib.compressobj(level, zlib.DEFLATED, window)
    stream = deflater.compress(raw) + deflater.flush()
    pieces = [chunk(b"IDAT", stream[at : at + 777]) for at in range(0, len(stream), 777)]
    check(assemble(header(300, 200), *pieces, END))
