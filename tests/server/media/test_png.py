"""What the walk of a PNG notes, and that a wrong byte anywhere is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.media.png import CHUNK_LIMIT, PngHeader, read_png
from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import Stopped
from support.bad_media import chunks
from support.media_files import KINDS, SIGNATURE, chunk, palette, png

SOUND = png(5, 4, extra=[chunk(b"tEXt", b"a\0b")], pieces=3)


def never() -> None:
    """Nobody stops it."""


@pytest.mark.parametrize(("colour", "depth"), KINDS)
@pytest.mark.parametrize("interlace", [0, 1])
def test_reads_the_header(colour: int, depth: int, interlace: int) -> None:
    file = png(7, 5, colour=colour, depth=depth, interlace=interlace)
    found = read_png(file, never)
    assert found.header == PngHeader(7, 5, depth, colour, bool(interlace))
    assert found.palette == (1 << depth if colour == 3 else 0)


def test_what_pixels_need_no_more_is_left_out() -> None:
    found = read_png(SOUND, never)
    kept = SIGNATURE + b"".join(SOUND[begin:end] for begin, end in found.essential)
    assert kept == png(5, 4, pieces=3)
    assert len(found.essential) == 2
    assert len(found.data) == 3


def test_transparency_and_suggested_colours_stay() -> None:
    file = png(extra=[palette(4), chunk(b"gAMA", bytes(4)), chunk(b"tRNS", bytes(6))])
    found = read_png(file, never)
    kept = b"".join(file[begin:end] for begin, end in found.essential)
    assert b"PLTE" in kept and b"tRNS" in kept and b"gAMA" not in kept


def test_as_many_chunks_as_are_allowed() -> None:
    assert read_png(chunks(CHUNK_LIMIT), never).header.width == 3


@given(st.integers(len(SIGNATURE), len(SOUND) - 1), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(at: int, change: int) -> None:
    changed = bytearray(SOUND)
    changed[at] ^= change
    with pytest.raises(Fault):
        read_png(changed, never)


@given(st.integers(len(SIGNATURE), len(SOUND) - 1))
def test_no_missing_end_goes_unnoticed(at: int) -> None:
    with pytest.raises(Fault) as caught:
        read_png(SOUND[:at], never)
    assert caught.value.rule is Rule.PNG_CUT


def test_stops_when_told() -> None:
    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        read_png(SOUND, stop)
