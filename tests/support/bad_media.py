"""One bad input, or several, for each rule on media; each is sound but for that rule."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pumas_server.media.jpeg import SCAN_LIMIT, SEGMENT_LIMIT
from pumas_server.media.png import CHUNK_LIMIT
from pumas_server.media.rules import Rule
from support.media_files import (
    END,
    Segment,
    assemble,
    blank_png,
    chunk,
    clip,
    data,
    header,
    image,
    join,
    jpeg,
    padded_png,
    palette,
    part,
    pixels,
    png,
    said,
    segment,
    segments,
    text_of,
)

MIB = 1 << 20
TEXT = {"kind": "text", "text": "Describe."}
PICTURE = part(image("png", png()))

Input = dict[str, Any]


def one(encoding: str, file: bytes) -> Input:
    return {"kind": "image", **image(encoding, file)}


def _text(text: str) -> Input:
    return {"kind": "image", "encoding": "png", "data_base64": text}


def _png(*chunks: bytes) -> Input:
    return one("png", assemble(*chunks))


def _jpeg(*parts: Segment | bytes) -> Input:
    return one("jpeg", join(parts))


def _clip(samples: bytes, encoding: str = "pcm_f32le", **numbers: int) -> Input:
    return said(part(clip(samples, encoding, **numbers)))


def _floats(*samples: float) -> bytes:
    return np.array(samples, dtype="<f4").tobytes()


#: All three end with the last byte of an IEND chunk: "YII", "YII=" and "gg==".
UNPADDED, ONE_PAD, TWO_PADS = (text_of(padded_png(size)) for size in (300, 299, 298))

HEADER, DATA = header(), data(pixels())
STREAM = zlib.compress(pixels())
PLAIN = segments(jpeg())
PROGRESSIVE = segments(jpeg(progressive=True))
_FRAME_AT = next(i for i, each in enumerate(PLAIN) if each.marker == 0xC0)
_SCAN_AT = next(i for i, each in enumerate(PLAIN) if each.marker == 0xDA)
FRAME, SCAN = PLAIN[_FRAME_AT], PLAIN[_SCAN_AT]


def _framed(marker: int = 0xC0, content: bytes = FRAME.content) -> Input:
    """With another frame header."""
    return _jpeg(*PLAIN[:_FRAME_AT], Segment(marker, content), *PLAIN[_FRAME_AT + 1 :])


def _before_frame(*parts: Segment | bytes) -> Input:
    return _jpeg(*PLAIN[:_FRAME_AT], *parts, *PLAIN[_FRAME_AT:])


def _scanned(content: bytes) -> Input:
    return _jpeg(*PLAIN[:_SCAN_AT], replace(SCAN, content=content), *PLAIN[_SCAN_AT + 1 :])


def _coded(change: Callable[[bytes], bytes]) -> Input:
    """With the coded data changed."""
    return _jpeg(*PLAIN[:_SCAN_AT], replace(SCAN, coded=change(SCAN.coded)))


def scans(count: int) -> bytes:
    """A file of so many scans; its last one is repeated, so it does not decode."""
    last = [each for each in PROGRESSIVE if each.marker == 0xDA]
    return join([*PROGRESSIVE, *[last[-1]] * (count - len(last))])


def chunks(count: int) -> bytes:
    """A PNG of so many chunks."""
    return png(extra=[chunk(b"fiLl")] * (count - 3))


def many_segments(count: int) -> bytes:
    """A JPEG of so many markers behind its first, the last of which ends it."""
    return join([*[segment(0xFE)] * (count - len(PLAIN) - 1), *PLAIN])


def conversation(messages: int, parts: int) -> Input:
    """Messages of which the first shows an image, with so many parts in all."""
    contents: list[Any] = ["Hello."] * messages
    contents[0] = [PICTURE, *[TEXT] * (parts - 1)]
    return {
        "kind": "image_messages",
        "messages": [{"role": "user", "content": content} for content in contents],
    }


def images_of(*sizes: int) -> Input:
    return said(*(part(image("png", padded_png(size))) for size in sizes))


def clips_of(*sizes: int) -> Input:
    return said(*(part(clip(bytes(size), rate=192_000, channels=2)) for size in sizes))


def _at_index(value: int) -> Input:
    """Of indexed colours, the last pixel of colour `value` where there are three."""
    raw = b"\0\0\0\0" + bytes([0, 0, 2, value])
    return _png(header(3, 2, colour=3), palette(3), data(raw), END)


BAD: dict[Rule, dict[str, Callable[[], Input]]] = {
    Rule.IMAGE_COUNT: {"five": lambda: said(*[PICTURE] * 5)},
    Rule.MESSAGE_COUNT: {"129": lambda: conversation(129, 2)},
    Rule.CONTENT_PARTS: {"129": lambda: conversation(1, 129)},
    Rule.IMAGE_CHARACTERS: {"one": lambda: _text("A" * 11_184_813)},
    Rule.IMAGE_BYTES: {"one byte": lambda: images_of(8 * MIB + 1)},
    Rule.TOTAL_IMAGE_BYTES: {"a third": lambda: images_of(8 * MIB, 8 * MIB, 100)},
    Rule.WIDTH: {
        "png": lambda: one("png", blank_png(4097, 1)),
        "jpeg": lambda: one("jpeg", jpeg(4097, 1)),
    },
    Rule.HEIGHT: {
        "png": lambda: one("png", blank_png(1, 4097)),
        "jpeg": lambda: one("jpeg", jpeg(1, 4097)),
    },
    Rule.IMAGE_PIXELS: {
        "png": lambda: one("png", blank_png(2049, 2048)),
        "jpeg": lambda: one("jpeg", jpeg(2049, 2048, mode="L")),
    },
    Rule.AUDIO_COUNT: {"five": lambda: said(*[part(clip(bytes(2)))] * 5)},
    Rule.TOTAL_AUDIO_BYTES: {"a frame": lambda: clips_of(8 * MIB, 8 * MIB, 4)},
    Rule.BASE64_NO_URL: {"png": lambda: _text("data:image/png;base64," + text_of(png()))},
    Rule.BASE64_LENGTH: {
        "unpadded": lambda: _text(ONE_PAD[:-1]),
        "one more": lambda: _text(UNPADDED + "A"),
    },
    Rule.BASE64_ALPHABET: {
        "blanks": lambda: _text("    " + UNPADDED),
        "line ends": lambda: _text(UNPADDED[:76] + "\r\n\r\n" + UNPADDED[76:]),
        "for URLs": lambda: _text(UNPADDED[:-4] + "-_-_"),
        "not ASCII": lambda: _text(UNPADDED[:-4] + "Aéaé"),
        "last": lambda: _text(TWO_PADS[:-3] + "*=="),
        "behind a slice": lambda: _text("A" * 65_536 + "A*AA"),
    },
    Rule.BASE64_PADDING: {
        "in the middle": lambda: _text("AA==" + UNPADDED),
        "at the end of a slice": lambda: _text("A" * 65_534 + "==" + "AAAA"),
        "three": lambda: _text(UNPADDED + "A==="),
        "apart": lambda: _text(UNPADDED + "A=A="),
    },
    Rule.BASE64_PAD_BITS: {
        "two": lambda: _text(ONE_PAD[:-2] + "J="),
        "four": lambda: _text(TWO_PADS[:-3] + "h=="),
        "behind a slice": lambda: _text("A" * 65_536 + "AP=="),
    },
    Rule.DECLARED_ENCODING: {
        "png as jpeg": lambda: one("jpeg", png()),
        "jpeg as png": lambda: one("png", jpeg()),
    },
    Rule.AN_IMAGE: {
        "gif": lambda: one("png", b"GIF89a" + bytes(20)),
        "mangled": lambda: one("png", png().replace(b"\r\n", b"\n", 1)),
        "one byte": lambda: one("jpeg", b"\xff"),
    },
    Rule.NOT_EMPTY: {
        "no width": lambda: _png(header(0, 2), DATA, END),
        "no height": lambda: _png(header(3, 0), DATA, END),
        "jpeg": lambda: _framed(content=FRAME.content[:1] + bytes(2) + FRAME.content[3:]),
    },
    Rule.PIXELS_DECODE: {
        "cut, but closed": lambda: _coded(lambda coded: coded[: len(coded) // 2]),
        "too much": lambda: _coded(lambda coded: coded + bytes(40)),
        "restarts out of order": lambda: one(
            "jpeg", jpeg(restart_marker_blocks=1).replace(b"\xff\xd1", b"\xff\xd3", 1)
        ),
        "no quantization tables": lambda: _jpeg(*(each for each in PLAIN if each.marker != 0xDB)),
        "scans twice": lambda: one("jpeg", scans(len(PROGRESSIVE))),
    },
    Rule.PNG_CUT: {
        "within IDAT": lambda: one("png", png()[:-20]),
        "without IEND": lambda: _png(HEADER, DATA),
        "signature alone": lambda: _png(),
        "length beyond": lambda: _png(HEADER, struct.pack(">I", 0xFFFFFFFF) + DATA[4:], END),
    },
    Rule.PNG_CHUNK_TYPE: {"digit": lambda: _png(HEADER, chunk(b"te1t"), DATA, END)},
    Rule.PNG_CHUNK_COUNT: {"one": lambda: one("png", chunks(CHUNK_LIMIT + 1))},
    Rule.PNG_CRC: {
        "IDAT": lambda: _png(HEADER, chunk(b"IDAT", STREAM, crc=1), END),
        "text": lambda: _png(HEADER, chunk(b"tEXt", b"a\0b", crc=1), DATA, END),
        "IEND": lambda: _png(HEADER, DATA, chunk(b"IEND", crc=1)),
    },
    Rule.PNG_HEADER_FIRST: {
        "text": lambda: _png(chunk(b"tEXt", b"a\0b"), HEADER, DATA, END),
        "end": lambda: _png(END),
    },
    Rule.PNG_HEADER_ONCE: {"two": lambda: _png(HEADER, HEADER, DATA, END)},
    Rule.PNG_HEADER_SIZE: {"14": lambda: _png(chunk(b"IHDR", HEADER[8:21] + b"\0"), DATA, END)},
    Rule.PNG_COLOUR: {
        "type": lambda: _png(header(colour=5), DATA, END),
        "depth": lambda: _png(header(depth=4), DATA, END),
    },
    Rule.PNG_METHODS: {
        "compression": lambda: _png(header(compression=1), DATA, END),
        "filter": lambda: _png(header(filters=64), DATA, END),
    },
    Rule.PNG_INTERLACE: {"2": lambda: _png(header(interlace=2), DATA, END)},
    Rule.PNG_PALETTE_ONCE: {"two": lambda: _png(HEADER, palette(2), palette(2), DATA, END)},
    Rule.PNG_PALETTE_BEFORE_DATA: {"behind": lambda: _png(HEADER, DATA, palette(2), END)},
    Rule.PNG_PALETTE_SIZE: {
        "empty": lambda: _png(HEADER, chunk(b"PLTE"), DATA, END),
        "no triple": lambda: _png(HEADER, chunk(b"PLTE", bytes(4)), DATA, END),
        "257": lambda: _png(HEADER, chunk(b"PLTE", bytes(771)), DATA, END),
        "too many": lambda: _png(header(colour=3, depth=1), palette(3), DATA, END),
    },
    Rule.PNG_PALETTE_NEEDED: {"none": lambda: _png(header(colour=3), DATA, END)},
    Rule.PNG_PALETTE_UNWANTED: {"grey": lambda: _png(header(colour=0), palette(2), DATA, END)},
    Rule.PNG_PALETTE_INDEX: {"3 of 3": lambda: _at_index(3)},
    Rule.PNG_TRANSPARENCY: {
        "with alpha": lambda: _png(header(colour=6), chunk(b"tRNS", bytes(6)), DATA, END),
        "size": lambda: _png(HEADER, chunk(b"tRNS", bytes(5)), DATA, END),
        "twice": lambda: _png(HEADER, *[chunk(b"tRNS", bytes(6))] * 2, DATA, END),
        "behind": lambda: _png(HEADER, DATA, chunk(b"tRNS", bytes(6)), END),
        "before the palette": lambda: _png(
            header(colour=3), chunk(b"tRNS", bytes(1)), palette(2), DATA, END
        ),
    },
    Rule.PNG_DATA_PRESENT: {"none": lambda: _png(HEADER, END)},
    Rule.PNG_DATA_TOGETHER: {
        "text between": lambda: _png(
            HEADER,
            chunk(b"IDAT", STREAM[:9]),
            chunk(b"tEXt", b"a\0b"),
            chunk(b"IDAT", STREAM[9:]),
            END,
        )
    },
    Rule.PNG_END_EMPTY: {"byte": lambda: _png(HEADER, DATA, chunk(b"IEND", b"\0"))},
    Rule.PNG_END_LAST: {
        "byte": lambda: one("png", png() + b"\0"),
        "another": lambda: one("png", png() + png()),
    },
    Rule.PNG_STILL: {
        "acTL": lambda: _png(HEADER, chunk(b"acTL", bytes(8)), DATA, END),
        "fcTL": lambda: _png(HEADER, chunk(b"fcTL", bytes(26)), DATA, END),
        "fdAT": lambda: _png(HEADER, DATA, chunk(b"fdAT", bytes(9)), END),
    },
    Rule.PNG_CRITICAL: {"CgBI": lambda: _png(HEADER, chunk(b"CgBI", bytes(4)), DATA, END)},
    Rule.PNG_INFLATES: {
        "broken": lambda: _png(HEADER, chunk(b"IDAT", STREAM[:2] + b"\xff" + STREAM[3:]), END),
        "sum": lambda: _png(HEADER, chunk(b"IDAT", STREAM[:-1] + b"\0"), END),
        "a dictionary": lambda: _png(HEADER, chunk(b"IDAT", b"\x78\xbb" + bytes(20)), END),
    },
    Rule.PNG_STREAM_WHOLE: {"no sum": lambda: _png(HEADER, chunk(b"IDAT", STREAM[:-1]), END)},
    Rule.PNG_STREAM_LAST: {
        "byte": lambda: _png(HEADER, chunk(b"IDAT", STREAM + b"\0"), END),
        "chunk": lambda: _png(HEADER, DATA, chunk(b"IDAT", b"\0"), END),
    },
    Rule.PNG_PIXELS_ENOUGH: {
        "a byte": lambda: _png(HEADER, data(pixels()[:-1]), END),
        "none": lambda: _png(HEADER, data(b""), END),
        "interlaced": lambda: _png(header(interlace=1), data(bytes(len(pixels()))), END),
    },
    Rule.PNG_PIXELS_NO_MORE: {
        "a byte": lambda: _png(HEADER, data(pixels() + b"\0"), END),
        "a gigabyte": lambda: _png(HEADER, chunk(b"IDAT", _bomb(1 << 30)), END),
    },
    Rule.PNG_FILTER: {
        "first": lambda: _png(HEADER, data(b"\5" + pixels()[1:]), END),
        "last": lambda: _png(HEADER, data(pixels()[:10] + b"\5" + pixels()[11:]), END),
        "last pass": lambda: _png(
            header(1, 2, interlace=1), data(b"\0\0\0\0" + b"\xff\0\0\0"), END
        ),
    },
    Rule.JPEG_CUT: {
        "within a segment": lambda: one("jpeg", b"\xff\xd8" + segment(0xFE, b"ab", length=9)),
        "within a length": lambda: one("jpeg", b"\xff\xd8\xff\xfe\0"),
    },
    Rule.JPEG_END: {
        "cut": lambda: one("jpeg", jpeg()[:-9]),
        "no EOI": lambda: one("jpeg", jpeg()[:-2]),
        "half of EOI": lambda: one("jpeg", jpeg()[:-1]),
        "fill": lambda: one("jpeg", b"\xff\xd8" + b"\xff" * 200_000),
        "SOI alone": lambda: one("jpeg", b"\xff\xd8"),
    },
    Rule.JPEG_END_LAST: {
        "byte": lambda: one("jpeg", jpeg() + b"\0"),
        "another": lambda: one("jpeg", jpeg() + jpeg()),
    },
    Rule.JPEG_MARKER: {"byte": lambda: _before_frame(b"\0")},
    Rule.JPEG_MARKER_KNOWN: {
        "SOI": lambda: _before_frame(b"\xff\xd8"),
        "TEM": lambda: _before_frame(b"\xff\x01"),
        "zero": lambda: _before_frame(b"\xff\x00"),
        "reserved": lambda: _before_frame(segment(0xF7)),
        "JPG": lambda: _before_frame(segment(0xC8)),
        "in the data": lambda: _coded(lambda coded: coded[:9] + b"\xff\x02" + coded[9:]),
    },
    Rule.JPEG_SEGMENT: {
        "length 1": lambda: _before_frame(segment(0xFE, b"", length=1)),
        "frame": lambda: _framed(content=FRAME.content + b"\0"),
        "empty frame": lambda: _framed(content=b""),
        "scan": lambda: _scanned(SCAN.content + b"\0"),
        "empty scan": lambda: _scanned(b""),
        "DHT": lambda: _before_frame(segment(0xC4, bytes(16))),
        "DHT of fewer codes": lambda: _before_frame(segment(0xC4, bytes(16) + b"\1")),
        "DRI": lambda: _before_frame(segment(0xDD, bytes(3))),
    },
    Rule.JPEG_SEGMENT_COUNT: {"one": lambda: one("jpeg", many_segments(SEGMENT_LIMIT + 1))},
    Rule.JPEG_RESTART: {
        "not announced": lambda: _coded(lambda coded: coded[:9] + b"\xff\xd0" + coded[9:]),
        "between segments": lambda: _before_frame(b"\xff\xd0"),
    },
    Rule.JPEG_FRAME_PRESENT: {"none": lambda: _jpeg(*PLAIN[:_FRAME_AT])},
    Rule.JPEG_FRAME_ONCE: {"two": lambda: _before_frame(FRAME)},
    Rule.JPEG_LOSSLESS: {"C3": lambda: _framed(0xC3)},
    Rule.JPEG_ARITHMETIC: {
        "C9": lambda: _framed(0xC9),
        "CA": lambda: _framed(0xCA),
        "conditioning": lambda: _before_frame(segment(0xCC, bytes(2))),
    },
    Rule.JPEG_HIERARCHICAL: {
        "C5": lambda: _framed(0xC5),
        "DHP": lambda: _before_frame(Segment(0xDE, FRAME.content)),
    },
    Rule.JPEG_PRECISION: {"12": lambda: _framed(0xC1, b"\x0c" + FRAME.content[1:])},
    Rule.JPEG_COMPONENTS: {
        "none": lambda: _framed(content=FRAME.content[:5] + b"\0"),
        "two": lambda: _framed(content=FRAME.content[:5] + b"\2" + FRAME.content[6:12]),
        "sampled 0 times": lambda: _framed(content=FRAME.content[:7] + b"\x02" + FRAME.content[8:]),
        "sampled 5 times": lambda: _framed(content=FRAME.content[:7] + b"\x51" + FRAME.content[8:]),
    },
    Rule.JPEG_LINES: {"DNL": lambda: _jpeg(*PLAIN, segment(0xDC, b"\0\x18"))},
    Rule.JPEG_SCAN_PRESENT: {"none": lambda: _jpeg(*PLAIN[:_SCAN_AT])},
    Rule.JPEG_SCAN_AFTER_FRAME: {"before": lambda: _before_frame(SCAN)},
    Rule.JPEG_SCAN_COMPONENTS: {
        "another": lambda: _scanned(b"\3\x09" + SCAN.content[2:]),
        "none": lambda: _scanned(b"\0" + SCAN.content[7:]),
    },
    Rule.JPEG_SCAN_COMPLETE: {
        "one of three": lambda: _scanned(b"\1" + SCAN.content[1:3] + SCAN.content[7:])
    },
    Rule.JPEG_HUFFMAN: {
        "none": lambda: _jpeg(*(each for each in PLAIN if each.marker != 0xC4)),
        "another": lambda: _scanned(SCAN.content[:2] + b"\x30" + SCAN.content[3:]),
        "none, progressive": lambda: _jpeg(*(each for each in PROGRESSIVE if each.marker != 0xC4)),
    },
    Rule.JPEG_SCAN_COUNT: {"one": lambda: one("jpeg", scans(SCAN_LIMIT + 1))},
    Rule.JPEG_SINGLE: {"MPF": lambda: _before_frame(segment(0xE2, b"MPF\0MM\0*"))},
    Rule.CLIP_BYTES: {
        "fewer": lambda: _clip(bytes(8), count=3),
        "more": lambda: _clip(bytes(8), "pcm_s16le", count=5),
        "no frame": lambda: _clip(bytes(7), "pcm_s16le", count=4),
        "channels": lambda: _clip(bytes(8), count=2, channels=2),
    },
    Rule.CLIP_FINITE: {
        "NaN": lambda: _clip(_floats(0, float("nan"), 0)),
        "infinite": lambda: _clip(_floats(0, float("-inf"))),
        "behind a slice": lambda: _clip(_floats(*[0.5] * 20_000, float("nan"))),
    },
    Rule.CLIP_RANGE: {
        "1.01": lambda: _clip(_floats(0, 1.01)),
        "just over": lambda: _clip(_floats(0, -1.0000001)),
        "behind a slice": lambda: _clip(_floats(*[0.5] * 20_000, 2)),
    },
}


def _bomb(size: int) -> bytes:
    """So many zeros, deflated; made of repeated blocks, because deflating them takes seconds."""
    deflater = zlib.compressobj(9)
    step = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    block = deflater.compress(bytes(MIB)) + deflater.flush(zlib.Z_FULL_FLUSH)
    return step + block * (size // MIB - 1)


#: No file within the other bounds breaks it; the test of `raster` lowers the guard.
UNREACHABLE = frozenset({Rule.DECODE_BYTES})
