"""Inflates the pixels of a PNG file, and keeps none (PNG specification, clauses 7 to 10).

The header implies how many bytes there are, so a stream that goes on is left after the first byte
too many: a file that would unfold into gigabytes costs no more than an honest one. Decoders are
forgiving here: they fill up what is missing and ignore what is too much.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from pumas_server.media.png import Png, PngHeader, Span
from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import SLICE, Checkpoint

#: The passes of interlace method 1: first column and row, steps to the next (clause 8.2).
_ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
_LAST_FILTER = 4


@dataclass(frozen=True, slots=True)
class Pass:
    """Rows of equal length, one behind the other."""

    begin: int
    end: int
    """Bytes of the inflated stream."""
    row: int
    """Bytes of a row, its filter byte included."""


def build_passes(header: PngHeader) -> tuple[Pass, ...]:
    """The passes that an image of this header has, in the order of the stream."""
    grid = _ADAM7 if header.interlaced else ((0, 0, 1, 1),)
    passes: list[Pass] = []
    at = 0
    for left, top, across, down in grid:
        columns = -((left - header.width) // across)
        rows = -((top - header.height) // down)
        if columns > 0 and rows > 0:
            row = 1 + (columns * header.pixel_bits + 7) // 8
            passes.append(Pass(at, at + row * rows, row))
            at = passes[-1].end
    return tuple(passes)


def check_stream(file: bytes | bytearray, png: Png, checkpoint: Checkpoint) -> None:
    """Check that the IDAT chunks hold one zlib stream of exactly the rows that are implied.

    Raises `Fault`, and what `checkpoint` raises.
    """
    passes = build_passes(png.header)
    expected = passes[-1].end
    inflater = zlib.decompressobj()
    at = 0
    with memoryview(file) as view:
        for begin, end in _slices(png.data):
            checkpoint()
            fed: memoryview | bytes = view[begin:end]
            while fed:
                if inflater.eof:
                    raise Fault(
                        Rule.PNG_STREAM_LAST, "is a PNG with bytes behind its compressed pixels"
                    )
                checkpoint()
                block = _inflate(inflater, fed)
                _check_block(block, at, passes, expected)
                at += len(block)
                fed = inflater.unconsumed_tail or inflater.unused_data
    _check_end(inflater, at, expected)


def _slices(spans: tuple[Span, ...]) -> list[Span]:
    return [(at, min(at + SLICE, end)) for begin, end in spans for at in range(begin, end, SLICE)]


def _inflate(inflater: zlib._Decompress, fed: memoryview | bytes) -> bytes:
    try:
        return inflater.decompress(fed, SLICE)
    except zlib.error:
        raise Fault(
            Rule.PNG_INFLATES, "is a PNG whose compressed pixels cannot be inflated"
        ) from None


def _check_block(block: bytes, at: int, passes: tuple[Pass, ...], expected: int) -> None:
    """Check the inflated bytes that begin at `at`: no more than expected, and their filters."""
    if at + len(block) > expected:
        raise Fault(
            Rule.PNG_PIXELS_NO_MORE,
            f"is a PNG with more pixels than its header implies ({expected} bytes)",
        )
    for rows in passes:
        if rows.end <= at or rows.begin >= at + len(block):
            continue
        behind = max(at - rows.begin, 0)
        first = rows.begin + -(-behind // rows.row) * rows.row
        filters = block[first - at : rows.end - at : rows.row]
        if filters and max(filters) > _LAST_FILTER:
            raise Fault(Rule.PNG_FILTER, f"is a PNG with the unknown row filter {max(filters)}")


def _check_end(inflater: zlib._Decompress, at: int, expected: int) -> None:
    if at < expected:
        raise Fault(
            Rule.PNG_PIXELS_ENOUGH,
            f"is a PNG with too few pixels: its header implies {expected} bytes, {at} are there",
        )
    if not inflater.eof:
        raise Fault(
            Rule.PNG_STREAM_WHOLE, "is a PNG whose compressed pixels break off before their end"
        )
