"""Walks the segments of a JPEG file (ITU-T T.81, annex B).

Only what is coded sequentially or progressively with Huffman codes and 8 bits is let through: it is
what every decoder reads alike. Decoders look for the next marker when there is none, stop at the
first end of image, and go through as many scans as there are; here every byte outside the coded
data belongs to a segment, and the file ends with its one picture. Whether the coded data are whole
only decoding tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import SLICE, Checkpoint

SIGNATURE = b"\xff\xd8"

#: Segments of one file: far more than a writer makes, few enough to be walked in no time.
SEGMENT_LIMIT = 16_384
#: Passes over the picture: progressive writers make about ten. Each costs the decoder a walk over
#: all blocks, however few bytes it has, so a small file could keep it busy for minutes.
SCAN_LIMIT = 100

_SOI, _EOI, _SOS, _DNL, _DRI, _DAC, _DHP, _EXP, _COM = (
    0xD8,
    0xD9,
    0xDA,
    0xDC,
    0xDD,
    0xCC,
    0xDE,
    0xDF,
    0xFE,
)
_APP0, _APP2, _APP15 = 0xE0, 0xE2, 0xEF
_DHT, _DQT = 0xC4, 0xDB
_RESTARTS = range(0xD0, 0xD8)
_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_PROGRESSIVE = 0xC2

_REFUSED_FRAMES = {
    0xC3: (Rule.JPEG_LOSSLESS, "lossless"),
    0xC5: (Rule.JPEG_HIERARCHICAL, "hierarchical"),
    0xC6: (Rule.JPEG_HIERARCHICAL, "hierarchical"),
    0xC7: (Rule.JPEG_HIERARCHICAL, "hierarchical"),
    0xC9: (Rule.JPEG_ARITHMETIC, "arithmetically coded"),
    0xCA: (Rule.JPEG_ARITHMETIC, "arithmetically coded"),
    0xCB: (Rule.JPEG_ARITHMETIC, "arithmetically coded"),
    _DAC: (Rule.JPEG_ARITHMETIC, "arithmetically coded"),
    0xCD: (Rule.JPEG_ARITHMETIC, "arithmetically coded"),
    0xCE: (Rule.JPEG_ARITHMETIC, "arithmetically coded"),
    0xCF: (Rule.JPEG_ARITHMETIC, "arithmetically coded"),
    _DHP: (Rule.JPEG_HIERARCHICAL, "hierarchical"),
    _EXP: (Rule.JPEG_HIERARCHICAL, "hierarchical"),
}

#: A marker within coded data: not a stuffed zero, nor fill. With restarts announced, those are
#: part of the data, and whether they come in order the decoder tells.
_MARKER = re.compile(rb"\xff[^\x00\xff]")
_MARKER_NOT_RESTART = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")

_FILL = re.compile(rb"\xff+")

_MULTI_PICTURE = b"MPF\0"


@dataclass(frozen=True, slots=True)
class Jpeg:
    """A file whose segments are in order: its frame header."""

    width: int
    height: int
    components: int
    """1: grey; 3: colour; 4: CMYK or YCCK."""
    progressive: bool


@dataclass(slots=True)
class _Walk:
    """What was seen so far."""

    frame: Jpeg | None = None
    components: bytes = b""
    """Their identifiers, as the frame header has them."""
    scanned: set[int] = field(default_factory=set)
    """Those of `components` that a scan held."""
    tables: set[int] = field(default_factory=set)
    """Huffman tables: class (0: DC, 1: AC) and number, as the file packs them."""
    scans: int = 0
    restarts: bool = False


def read_jpeg(file: bytes | bytearray, checkpoint: Checkpoint) -> Jpeg:
    """Read a file that begins with `SIGNATURE`. Raises `Fault`, and what `checkpoint` raises."""
    walk = _Walk()
    at = len(SIGNATURE)
    for _ in range(SEGMENT_LIMIT):
        checkpoint()
        marker, at = _read_marker(file, at, checkpoint)
        if marker == _EOI:
            return _finish(walk, len(file) - at)
        _check_marker(marker)
        content, at = _read_segment(file, at, marker)
        _take(walk, marker, content)
        if marker == _SOS:
            at = _skip_coded_data(file, at, walk.restarts, checkpoint)
    raise Fault(Rule.JPEG_SEGMENT_COUNT, f"is a JPEG with more than {SEGMENT_LIMIT} segments")


def _read_marker(file: bytes | bytearray, at: int, checkpoint: Checkpoint) -> tuple[int, int]:
    """The marker at `at`, before which any number of fill bytes may stand, and where it ends."""
    begin = at
    while at < len(file):
        checkpoint()
        fill = _FILL.match(file, at, at + SLICE)
        if fill:
            at = fill.end()
        elif at > begin:
            return file[at], at + 1
        else:
            raise Fault(Rule.JPEG_MARKER, "is a JPEG with bytes that belong to no segment")
    raise _endless()


def _check_marker(marker: int) -> None:
    """Refuse markers that have no place between segments, by name where they have one."""
    if refused := _REFUSED_FRAMES.get(marker):
        rule, name = refused
        raise Fault(rule, f"is a JPEG that is {name}; baseline and progressive ones are accepted")
    if marker in _RESTARTS:
        raise Fault(Rule.JPEG_RESTART, "is a JPEG with a restart marker where none is due")
    if marker == _DNL:
        raise Fault(Rule.JPEG_LINES, "is a JPEG that tells its height behind its pixels")
    known = marker in _FRAMES or _APP0 <= marker <= _APP15
    if not known and marker not in (_SOS, _DRI, _COM, _DHT, _DQT):
        raise Fault(Rule.JPEG_MARKER_KNOWN, f"is a JPEG with the unexpected marker {marker:#04x}")


def _read_segment(file: bytes | bytearray, at: int, marker: int) -> tuple[bytes, int]:
    """The content of the segment whose length stands at `at`, and where it ends."""
    length = int.from_bytes(file[at : at + 2])
    if at + 2 > len(file) or at + length > len(file):
        raise Fault(Rule.JPEG_CUT, f"is a JPEG that ends within its segment {marker:#04x}")
    if length < 2:
        raise _malformed(marker, length)
    return bytes(file[at + 2 : at + length]), at + length


def _malformed(marker: int, length: int) -> Fault:
    return Fault(
        Rule.JPEG_SEGMENT, f"is a JPEG whose segment {marker:#04x} has the wrong length {length}"
    )


def _take(walk: _Walk, marker: int, content: bytes) -> None:
    """Check one segment against what came before it, and note it."""
    if marker in _FRAMES:
        if walk.frame:
            raise Fault(Rule.JPEG_FRAME_ONCE, "is a JPEG with two frame headers")
        walk.frame = _read_frame(marker, content)
        walk.components = content[6::3]
    elif marker == _SOS:
        _take_scan(walk, content)
    elif marker == _DHT:
        walk.tables.update(_read_tables(content))
    elif marker == _DRI:
        if len(content) != 2:
            raise _malformed(marker, len(content) + 2)
        walk.restarts = any(content)
    elif marker == _APP2 and content.startswith(_MULTI_PICTURE):
        raise Fault(Rule.JPEG_SINGLE, "is a JPEG of several pictures; one is expected")


def _read_frame(marker: int, content: bytes) -> Jpeg:
    if len(content) < 6 or len(content) != 6 + 3 * content[5]:
        raise _malformed(marker, len(content) + 2)
    if content[0] != 8:
        raise Fault(Rule.JPEG_PRECISION, f"is a JPEG of {content[0]} bits a sample; 8 are accepted")
    components = content[5]
    sampled = (factor for both in content[7::3] for factor in divmod(both, 16))
    if components not in (1, 3, 4) or not all(1 <= factor <= 4 for factor in sampled):
        raise Fault(
            Rule.JPEG_COMPONENTS,
            f"is a JPEG of {components} components or an impossible subsampling of them",
        )
    height, width = int.from_bytes(content[1:3]), int.from_bytes(content[3:5])
    return Jpeg(width, height, components, marker == _PROGRESSIVE)


def _take_scan(walk: _Walk, content: bytes) -> None:
    if not walk.frame:
        raise Fault(Rule.JPEG_SCAN_AFTER_FRAME, "is a JPEG with a scan before its frame header")
    if not content or len(content) != 4 + 2 * content[0]:
        raise _malformed(_SOS, len(content) + 2)
    held = content[1 : 1 + 2 * content[0] : 2]
    if not held or any(component not in walk.components for component in held):
        raise Fault(
            Rule.JPEG_SCAN_COMPONENTS, "is a JPEG with a scan of components that it does not have"
        )
    if not walk.tables.issuperset(_needed_tables(walk.frame, content)):
        # Some decoders fall back on the codes of motion pictures, others read garbage.
        raise Fault(Rule.JPEG_HUFFMAN, "is a JPEG with a scan whose Huffman table it lacks")
    walk.scanned.update(held)
    walk.scans += 1
    if walk.scans > SCAN_LIMIT:
        raise Fault(Rule.JPEG_SCAN_COUNT, f"is a JPEG of more than {SCAN_LIMIT} scans")


def _read_tables(content: bytes) -> Iterator[int]:
    """The tables that a DHT segment defines (B.2.4.2)."""
    at = 0
    while at < len(content):
        codes = content[at + 1 : at + 17]
        end = at + 17 + sum(codes)
        if len(codes) < 16 or end > len(content):
            raise _malformed(_DHT, len(content) + 2)
        yield content[at]
        at = end


def _needed_tables(frame: Jpeg, scan: bytes) -> Iterator[int]:
    """The tables that the scan of this header decodes with (B.2.3, G.1.2)."""
    first, refined = scan[-3], scan[-1] >> 4
    for both in scan[2:-3:2]:
        direct, alternating = both >> 4, 0x10 | both & 15
        if not frame.progressive:
            yield from (direct, alternating)
        elif first:
            yield alternating
        elif not refined:
            yield direct


def _skip_coded_data(
    file: bytes | bytearray, at: int, restarts: bool, checkpoint: Checkpoint
) -> int:
    """Where the first marker is behind the coded data that begin at `at`."""
    pattern = _MARKER_NOT_RESTART if restarts else _MARKER
    while at < len(file):
        checkpoint()
        found = pattern.search(file, at, at + SLICE)
        if found:
            return found.start()
        # The last byte of a slice may be the first of a marker.
        at += SLICE - 1
    raise _endless()


def _endless() -> Fault:
    return Fault(Rule.JPEG_END, "is a JPEG that ends without its end-of-image marker")


def _finish(walk: _Walk, behind: int) -> Jpeg:
    if not walk.frame:
        raise Fault(Rule.JPEG_FRAME_PRESENT, "is a JPEG without a frame header")
    if not walk.scans:
        raise Fault(Rule.JPEG_SCAN_PRESENT, "is a JPEG without a scan")
    if len(walk.scanned) < len(walk.components):
        raise Fault(Rule.JPEG_SCAN_COMPLETE, "is a JPEG with a component that no scan holds")
    if behind:
        raise Fault(
            Rule.JPEG_END_LAST, f"is a JPEG with {behind} bytes behind its end-of-image marker"
        )
    return walk.frame
