"""Sound images and clips: PNG written byte by byte, JPEG as encoders write it, PCM."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import cycle
from random import Random
from typing import Any

import numpy as np
from PIL import Image

SIGNATURE = b"\x89PNG\r\n\x1a\n"
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
KINDS = [
    *((0, depth) for depth in (1, 2, 4, 8, 16)),
    *((3, depth) for depth in (1, 2, 4, 8)),
    *((colour, depth) for colour in (2, 4, 6) for depth in (8, 16)),
]
ADAM7 = [
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
]


def chunk(kind: bytes, content: bytes = b"", *, crc: int | None = None) -> bytes:
    checksum = zlib.crc32(kind + content) if crc is None else crc
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def header(
    width: int = 3,
    height: int = 2,
    *,
    depth: int = 8,
    colour: int = 2,
    compression: int = 0,
    filters: int = 0,
    interlace: int = 0,
) -> bytes:
    fields = (width, height, depth, colour, compression, filters, interlace)
    return chunk(b"IHDR", struct.pack(">IIBBBBB", *fields))


def rows(width: int, height: int, bits: int, interlace: int) -> Iterator[int]:
    """Bytes of each row without its filter, counted pixel by pixel."""
    for left, top, across, down in ADAM7 if interlace else [(0, 0, 1, 1)]:
        columns = len(range(left, width, across))
        for _ in range(top, height, down) if columns else ():
            yield -(-columns * bits // 8)


def pixels(
    width: int = 3,
    height: int = 2,
    *,
    depth: int = 8,
    colour: int = 2,
    interlace: int = 0,
    seed: int = 0,
) -> bytes:
    """Noise, with every row filter in turn."""
    noise = Random(seed)
    lengths = rows(width, height, depth * SAMPLES[colour], interlace)
    return b"".join(
        bytes([kind]) + noise.randbytes(n)
        for kind, n in zip(cycle(range(5)), lengths, strict=False)
    )


def palette(entries: int) -> bytes:
    return chunk(b"PLTE", bytes(range(256))[:entries] * 3)


END = chunk(b"IEND")


def assemble(*chunks: bytes) -> bytes:
    return SIGNATURE + b"".join(chunks)


def data(raw: bytes, *, level: int = 6) -> bytes:
    return chunk(b"IDAT", zlib.compress(raw, level))


def png(
    width: int = 3,
    height: int = 2,
    *,
    depth: int = 8,
    colour: int = 2,
    interlace: int = 0,
    extra: Iterable[bytes] = (),
    pieces: int = 1,
    seed: int = 0,
) -> bytes:
    """A sound PNG of noise; `extra` chunks stand before the IDAT chunks, of which `pieces` are."""
    raw = pixels(width, height, depth=depth, colour=colour, interlace=interlace, seed=seed)
    stream = zlib.compress(raw)
    step = -(-len(stream) // pieces)
    return assemble(
        header(width, height, depth=depth, colour=colour, interlace=interlace),
        *([palette(1 << depth)] if colour == 3 else []),
        *extra,
        *(chunk(b"IDAT", stream[at : at + step]) for at in range(0, len(stream), step)),
        END,
    )


def blank_png(width: int, height: int, *, depth: int = 8, colour: int = 0) -> bytes:
    """A large PNG that is small: all zero."""
    row = 1 + -(-width * depth * SAMPLES[colour] // 8)
    return assemble(
        header(width, height, depth=depth, colour=colour), data(bytes(row * height)), END
    )


def padded_png(size: int) -> bytes:
    """A sound PNG of `size` bytes, filled up by a private chunk."""
    least = len(png(extra=[chunk(b"fiLl")]))
    return png(extra=[chunk(b"fiLl", bytes(size - least))])


def noise(width: int = 40, height: int = 24, bands: int = 3) -> np.ndarray[Any, np.dtype[np.uint8]]:
    shape = (height, width, bands) if bands > 1 else (height, width)
    return np.random.default_rng(7).integers(0, 256, shape, dtype=np.uint8)


@cache
def jpeg(width: int = 40, height: int = 24, *, mode: str = "RGB", **how: Any) -> bytes:
    image = Image.fromarray(noise(width, height)).convert(mode)
    file = BytesIO()
    image.save(file, "JPEG", **how)
    return file.getvalue()


def thumbnailed_jpeg() -> bytes:
    """With an Exif segment that holds another JPEG."""
    whole = jpeg()
    return whole[:2] + segment(0xE1, b"Exif\0\0" + jpeg(8, 8)) + whole[2:]


def segment(marker: int, content: bytes = b"", *, length: int | None = None) -> bytes:
    size = len(content) + 2 if length is None else length
    return bytes([0xFF, marker]) + struct.pack(">H", size) + content


@dataclass(frozen=True)
class Segment:
    """One segment of a JPEG, with the coded data that follow it."""

    marker: int
    content: bytes
    coded: bytes = b""

    def encode(self) -> bytes:
        return segment(self.marker, self.content) + self.coded


def segments(file: bytes) -> list[Segment]:
    """The segments between SOI and EOI of a JPEG that an encoder wrote."""
    found: list[Segment] = []
    at = 2
    while file[at + 1] != 0xD9:
        length = int.from_bytes(file[at + 2 : at + 4])
        begin = end = at + 2 + length
        if file[at + 1] == 0xDA:
            while file[end] != 0xFF or file[end + 1] == 0 or 0xD0 <= file[end + 1] <= 0xD7:
                end += 1
        found.append(Segment(file[at + 1], file[at + 4 : begin], file[begin:end]))
        at = end
    return found


def join(parts: Iterable[Segment | bytes]) -> bytes:
    encoded = (part if isinstance(part, bytes) else part.encode() for part in parts)
    return b"\xff\xd8" + b"".join(encoded) + b"\xff\xd9"


def good_images() -> dict[str, tuple[str, bytes]]:
    """Sound files of every kind that is accepted, by name: encoding and bytes."""
    pngs = {
        f"png {colour}/{depth}{'i' * interlace} {width}x{height}": png(
            width, height, depth=depth, colour=colour, interlace=interlace
        )
        for colour, depth in KINDS
        for interlace in (0, 1)
        for width, height in ((1, 1), (3, 2), (13, 9))
    }
    pngs |= {
        "png in pieces": png(64, 64, pieces=9),
        "png with an empty IDAT": assemble(
            header(), chunk(b"IDAT"), data(pixels()), chunk(b"IDAT"), END
        ),
        "png with text": png(extra=[chunk(b"tEXt", b"Comment\0hello")]),
        "png with a broken profile": png(extra=[chunk(b"iCCP", b"x\0\0nonsense")]),
        "png with transparency": png(extra=[chunk(b"tRNS", bytes(6))]),
        "png with a transparent palette": png(colour=3, depth=2, extra=[chunk(b"tRNS", bytes(3))]),
        "png with suggested colours": png(extra=[palette(7)]),
        "png of 16 rows a block": png(4096, 40, colour=6),
    }
    jpegs = {
        "jpeg": jpeg(),
        "jpeg progressive": jpeg(progressive=True),
        "jpeg grey": jpeg(mode="L"),
        "jpeg grey progressive": jpeg(mode="L", progressive=True),
        "jpeg cmyk": jpeg(mode="CMYK"),
        "jpeg 4:4:4": jpeg(subsampling=0),
        "jpeg 4:2:2": jpeg(subsampling=1),
        "jpeg restarts": jpeg(restart_marker_blocks=1),
        "jpeg 1x1": jpeg(1, 1),
        "jpeg large": jpeg(300, 200, quality=95),
        "jpeg thumbnail": thumbnailed_jpeg(),
        "jpeg fill": b"\xff\xd8\xff\xff\xff" + jpeg()[2:],
    }
    return {name: ("png", file) for name, file in pngs.items()} | {
        name: ("jpeg", file) for name, file in jpegs.items()
    }


def text_of(file: bytes) -> str:
    return b64encode(file).decode()


def image(encoding: str, file: bytes) -> dict[str, Any]:
    """The record of an image, without a kind."""
    return {"encoding": encoding, "data_base64": text_of(file)}


def clip(
    samples: bytes,
    encoding: str = "pcm_s16le",
    *,
    channels: int = 1,
    rate: int = 16_000,
    count: int | None = None,
) -> dict[str, Any]:
    """The record of a clip, without a kind."""
    frame = channels * (2 if encoding == "pcm_s16le" else 4)
    return {
        "encoding": encoding,
        "sample_rate_hz": rate,
        "channels": channels,
        "sample_count": len(samples) // frame if count is None else count,
        "data_base64": text_of(samples),
    }


def part(record: dict[str, Any]) -> dict[str, Any]:
    """The record as a part of content."""
    return {"kind": "audio" if "channels" in record else "image", **record}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    """A conversation of one message."""
    return {"kind": "messages", "messages": [{"role": "user", "content": list(parts)}]}
