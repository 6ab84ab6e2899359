"""Walks the chunks of a PNG file (PNG specification, third edition, clauses 5, 9 and 11).

Stricter than decoders are, which read on after a bad checksum, skip what stands behind the end and
take the first picture of several. Every byte of the file belongs to a chunk with the right
checksum; of what these say, all is checked that pixels depend on. What they hold besides (texts,
colour profiles) is not looked at, nor given to a decoder by us.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import SLICE, Checkpoint

SIGNATURE = b"\x89PNG\r\n\x1a\n"

#: Chunks of one file: at 8 MiB, one for each 256 bytes.
CHUNK_LIMIT = 32_768

GREY, RGB, INDEXED, GREY_ALPHA, RGB_ALPHA = 0, 2, 3, 4, 6

#: Samples of a pixel, by colour type.
SAMPLES = {GREY: 1, RGB: 3, INDEXED: 1, GREY_ALPHA: 2, RGB_ALPHA: 4}

#: Bits of a sample, by colour type (table 12).
DEPTHS = {
    GREY: (1, 2, 4, 8, 16),
    RGB: (8, 16),
    INDEXED: (1, 2, 4, 8),
    GREY_ALPHA: (8, 16),
    RGB_ALPHA: (8, 16),
}

#: Bytes of a tRNS chunk, by colour type; that of indexed colours has up to one for each.
_TRANSPARENCY = {GREY: 2, RGB: 6}

_HEADER = struct.Struct(">IIBBBBB")
_FRAME = 12  # length, type and checksum
_ANIMATION = frozenset({b"acTL", b"fcTL", b"fdAT"})

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PngHeader:
    """The IHDR chunk."""

    width: int
    height: int
    depth: int
    """Bits of a sample."""
    colour: int
    """Key of `SAMPLES`."""
    interlaced: bool

    @property
    def pixel_bits(self) -> int:
        """Bits of a pixel."""
        return self.depth * SAMPLES[self.colour]


@dataclass(frozen=True, slots=True)
class Png:
    """A file whose chunks are in order."""

    header: PngHeader
    palette: int
    """Entries of the palette; 0 without one."""
    data: tuple[Span, ...]
    """Where the contents of the IDAT chunks lie."""
    essential: tuple[Span, ...]
    """Where the chunks lie that pixels depend on, adjacent ones as one."""


@dataclass(slots=True)
class _Walk:
    """What was seen so far."""

    header: PngHeader | None = None
    palette: int = 0
    transparent: bool = False
    data: list[Span] = field(default_factory=list)
    essential: list[Span] = field(default_factory=list)
    data_over: bool = False

    def keep(self, begin: int, end: int) -> None:
        """Note an essential chunk."""
        if self.essential and self.essential[-1][1] == begin:
            begin = self.essential.pop()[0]
        self.essential.append((begin, end))


def read_png(file: bytes | bytearray, checkpoint: Checkpoint) -> Png:
    """Read a file that begins with `SIGNATURE`. Raises `Fault`, and what `checkpoint` raises."""
    walk = _Walk()
    at = len(SIGNATURE)
    with memoryview(file) as view:
        for _ in range(CHUNK_LIMIT):
            checkpoint()
            kind, content, end = _read_chunk(view, at, checkpoint)
            if kind == b"IEND":
                return _finish(walk, view, at, content, end)
            _take(walk, kind, view[content : end - 4], at)
            at = end
    raise Fault(Rule.PNG_CHUNK_COUNT, f"is a PNG with more than {CHUNK_LIMIT} chunks")


def _read_chunk(view: memoryview, at: int, checkpoint: Checkpoint) -> tuple[bytes, int, int]:
    """The chunk at `at`: its type, where its content begins, and where the next chunk would."""
    left = len(view) - at
    if left < _FRAME:
        raise Fault(Rule.PNG_CUT, "is a PNG that ends without its IEND chunk")
    kind = view[at + 4 : at + 8].tobytes()
    if not kind.isalpha():
        raise Fault(Rule.PNG_CHUNK_TYPE, "is a PNG with a chunk whose type is not four letters")
    length = int.from_bytes(view[at : at + 4])
    name = kind.decode("ascii")
    if length > left - _FRAME:
        raise Fault(
            Rule.PNG_CUT,
            f"is a PNG that ends within its {name} chunk: {length} bytes of content are"
            f" promised, {left - _FRAME} are there",
        )
    content = at + 8
    checksum = 0
    for begin in range(at + 4, content + length, SLICE):
        checkpoint()
        checksum = zlib.crc32(view[begin : min(begin + SLICE, content + length)], checksum)
    end = content + length + 4
    if checksum != int.from_bytes(view[end - 4 : end]):
        raise Fault(Rule.PNG_CRC, f"is a PNG whose {name} chunk has a wrong checksum")
    return kind, content, end


def _take(walk: _Walk, kind: bytes, content: memoryview, at: int) -> None:
    """Check one chunk but IEND against what came before it, and note it."""
    if walk.header is None:
        if kind != b"IHDR":
            raise Fault(Rule.PNG_HEADER_FIRST, "is a PNG that does not begin with its IHDR chunk")
        walk.header = _read_header(content)
    elif kind == b"IHDR":
        raise Fault(Rule.PNG_HEADER_ONCE, "is a PNG with two IHDR chunks")
    elif kind == b"IDAT":
        if walk.data_over:
            raise Fault(Rule.PNG_DATA_TOGETHER, "is a PNG with other chunks between its IDAT ones")
        if walk.header.colour == INDEXED and not walk.palette:
            raise Fault(Rule.PNG_PALETTE_NEEDED, "is a PNG of indexed colours without a palette")
        walk.data.append((at + 8, at + 8 + len(content)))
    elif kind in _ANIMATION:
        raise Fault(Rule.PNG_STILL, "is an animated PNG; one picture is expected")
    elif kind == b"PLTE":
        walk.palette = _read_palette(walk, walk.header, len(content))
    elif kind == b"tRNS":
        _check_transparency(walk, walk.header, len(content))
    elif kind[:1].isupper():
        raise Fault(
            Rule.PNG_CRITICAL, f"is a PNG with the unknown critical chunk {kind.decode('ascii')}"
        )
    if kind in (b"IHDR", b"PLTE", b"tRNS", b"IDAT"):
        walk.keep(at, at + len(content) + _FRAME)
    walk.data_over = bool(walk.data) and kind != b"IDAT"


def _read_header(content: memoryview) -> PngHeader:
    if len(content) != _HEADER.size:
        raise Fault(
            Rule.PNG_HEADER_SIZE, f"is a PNG whose IHDR chunk has {len(content)} bytes, not 13"
        )
    width, height, depth, colour, compression, filters, interlace = _HEADER.unpack(content)
    if depth not in DEPTHS.get(colour, ()):
        raise Fault(
            Rule.PNG_COLOUR, f"is a PNG of colour type {colour} with {depth} bits, which is none"
        )
    if compression or filters:
        raise Fault(
            Rule.PNG_METHODS,
            f"is a PNG of the unknown compression method {compression} or filter method {filters}",
        )
    if interlace > 1:
        raise Fault(Rule.PNG_INTERLACE, f"is a PNG of the unknown interlace method {interlace}")
    return PngHeader(width, height, depth, colour, interlace == 1)


def _read_palette(walk: _Walk, header: PngHeader, size: int) -> int:
    if walk.palette:
        raise Fault(Rule.PNG_PALETTE_ONCE, "is a PNG with two palettes")
    if walk.data:
        raise Fault(Rule.PNG_PALETTE_BEFORE_DATA, "is a PNG with its palette behind its pixels")
    if header.colour in (GREY, GREY_ALPHA):
        raise Fault(Rule.PNG_PALETTE_UNWANTED, "is a greyscale PNG with a palette")
    entries, rest = divmod(size, 3)
    most = 1 << header.depth if header.colour == INDEXED else 256
    if rest or not 1 <= entries <= most:
        raise Fault(
            Rule.PNG_PALETTE_SIZE,
            f"is a PNG whose palette has {size} bytes; it takes 3 for each of 1 to {most} colours",
        )
    return entries


def _check_transparency(walk: _Walk, header: PngHeader, size: int) -> None:
    if header.colour == INDEXED:
        fits = 1 <= size <= walk.palette
    else:
        fits = size == _TRANSPARENCY.get(header.colour)
    if walk.transparent or walk.data or not fits:
        raise Fault(
            Rule.PNG_TRANSPARENCY,
            f"is a PNG whose tRNS chunk, of {size} bytes, does not fit its colours or stands in"
            " the wrong place",
        )
    walk.transparent = True


def _finish(walk: _Walk, view: memoryview, at: int, content: int, end: int) -> Png:
    if walk.header is None:
        raise Fault(Rule.PNG_HEADER_FIRST, "is a PNG that does not begin with its IHDR chunk")
    if not walk.data:
        raise Fault(Rule.PNG_DATA_PRESENT, "is a PNG without an IDAT chunk")
    if end - 4 != content:
        raise Fault(Rule.PNG_END_EMPTY, "is a PNG whose IEND chunk is not empty")
    if end != len(view):
        raise Fault(
            Rule.PNG_END_LAST, f"is a PNG with {len(view) - end} bytes behind its IEND chunk"
        )
    walk.keep(at, end)
    return Png(walk.header, walk.palette, tuple(walk.data), tuple(walk.essential))
