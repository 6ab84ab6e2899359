"""What the walk of a JPEG finds, and where it stops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.media.jpeg import SCAN_LIMIT, SEGMENT_LIMIT, Jpeg, read_jpeg
from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import SLICE, Stopped
from support.bad_media import PLAIN, SCAN, many_segments, scans
from support.media_files import join, jpeg, segment, segments, thumbnailed_jpeg


def never() -> None:
    """Nobody stops it."""


@pytest.mark.parametrize(
    ("file", "components", "progressive"),
    [
        (jpeg(), 3, False),
        (jpeg(progressive=True), 3, True),
        (jpeg(mode="L"), 1, False),
        (jpeg(mode="CMYK"), 4, False),
        (jpeg(restart_marker_blocks=1), 3, False),
        (thumbnailed_jpeg(), 3, False),
    ],
    ids=["plain", "progressive", "grey", "cmyk", "restarts", "thumbnail"],
)
def test_reads_the_frame(file: bytes, components: int, progressive: bool) -> None:
    assert read_jpeg(file, never) == Jpeg(40, 24, components, progressive)


def test_as_many_scans_and_segments_as_are_allowed() -> None:
    assert read_jpeg(scans(SCAN_LIMIT), never).progressive
    assert read_jpeg(many_segments(SEGMENT_LIMIT), never).width == 40


@given(st.integers(0, len(jpeg()) - 1))
def test_no_missing_end_goes_unnoticed(at: int) -> None:
    with pytest.raises(Fault) as caught:
        read_jpeg(jpeg()[:2] + jpeg()[2:at], never)
    assert caught.value.rule in (Rule.JPEG_END, Rule.JPEG_CUT)


@pytest.mark.parametrize("size", range(SLICE - 3, SLICE + 4))
def test_markers_are_found_across_slices(size: int) -> None:
    long = join([*PLAIN[:-1], segment(SCAN.marker, SCAN.content) + b"\xff\0" + bytes(size)])
    assert read_jpeg(long, never).width == 40
    filled = b"\xff\xd8" + b"\xff" * size + jpeg()[2:]
    assert read_jpeg(filled, never).width == 40


def test_marker_bytes_within_segments_are_none() -> None:
    noise = segment(0xFE, b"\xff\xd9\xff\xc0\xff\xd8\xff\xda")
    assert read_jpeg(join([noise, *PLAIN]), never).width == 40


def test_tables_may_come_one_by_one() -> None:
    single = [each for each in segments(jpeg()) if each.marker == 0xC4]
    assert len(single) > 1
    packed = segment(0xC4, b"".join(each.content for each in single))
    others = [each for each in PLAIN if each.marker != 0xC4]
    assert read_jpeg(join([packed, *others]), never).width == 40


def test_stops_when_told() -> None:
    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        read_jpeg(jpeg(), stop)
