"""Decodes the pixels of an image, and keeps none: the last proof that an engine can (notes §2.6).

JPEG is decoded by TurboJPEG, strictly: what it would warn of and go on (coded data that break off
are filled up with grey) is an error. CMYK and YCCK pictures are decoded as such, so they are
accepted. PNG is decoded by Pillow from the essential chunks alone, so that neither texts nor colour
profiles are unpacked, and none of its warnings has an occasion: `warnings` cannot be turned into
errors for one thread. The libraries let go of the interpreter's lock while they decode.

No file that keeps to the bounds on its size in pixels reaches the guard on memory; it is computed
all the same, so that another bound there does not silently become one on nothing.
"""

from __future__ import annotations

from io import BytesIO

import simplejpeg
from PIL.PngImagePlugin import PngImageFile

from pumas_server.contract.bounds import MAX_DECODE_BYTES
from pumas_server.contract.strict_json import quoted
from pumas_server.media.jpeg import Jpeg
from pumas_server.media.png import INDEXED, SIGNATURE, Png
from pumas_server.media.rules import Fault, Rule, check_bound
from pumas_server.media.stopping import SLICE, Checkpoint

_COLOURS = {1: "GRAY", 3: "RGB", 4: "CMYK"}

#: Bytes of a coefficient, of which a progressive decoder keeps all.
_COEFFICIENT = 2
#: Pixels of a block of the largest subsampling, to which pictures are filled up.
_LARGEST_BLOCK = 32
#: Bytes that Pillow takes for a pixel, at most.
_PIXEL = 4
#: Rows that are looked at together.
_STRIP = 64


def jpeg_decode_bytes(jpeg: Jpeg) -> int:
    """Bytes that decoding takes at most: the pixels, and the coefficients of all scans."""
    filled = _filled(jpeg.width) * _filled(jpeg.height)
    coefficients = filled * _COEFFICIENT if jpeg.progressive else 0
    return jpeg.components * (jpeg.width * jpeg.height + coefficients)


def png_decode_bytes(png: Png) -> int:
    """Bytes that decoding takes at most: the pixels, and two rows as the file has them."""
    header = png.header
    row = 1 + (header.width * header.pixel_bits + 7) // 8
    return header.width * header.height * _PIXEL + 2 * row


def decode_jpeg(file: bytes | bytearray, jpeg: Jpeg, *, guard: int = MAX_DECODE_BYTES) -> None:
    """Decode a file that `read_jpeg` read. Raises `Fault`."""
    check_bound(Rule.DECODE_BYTES, guard, jpeg_decode_bytes(jpeg))
    try:
        pixels = simplejpeg.decode_jpeg(file, colorspace=_COLOURS[jpeg.components], strict=True)
    except ValueError as error:
        # The library's words hold numbers of the file, nothing else of it.
        raise Fault(
            Rule.PIXELS_DECODE, f"is a JPEG whose pixels do not decode: {quoted(str(error))}"
        ) from None
    _agree((jpeg.width, jpeg.height), (pixels.shape[1], pixels.shape[0]))


def decode_png(
    file: bytes | bytearray,
    png: Png,
    checkpoint: Checkpoint,
    *,
    guard: int = MAX_DECODE_BYTES,
) -> None:
    """Decode a file that `read_png` read and `check_stream` passed.

    Raises `Fault`, and what `checkpoint` raises.
    """
    check_bound(Rule.DECODE_BYTES, guard, png_decode_bytes(png))
    try:
        with PngImageFile(_essential(file, png, checkpoint)) as image:
            image.load()
            checkpoint()
            _agree((png.header.width, png.header.height), image.size)
            if png.header.colour == INDEXED:
                _check_indices(image, png.palette, checkpoint)
    except (OSError, SyntaxError, ValueError):
        # All three of them are how Pillow says that a file is broken.
        raise Fault(Rule.PIXELS_DECODE, "is a PNG whose pixels do not decode") from None


def _filled(side: int) -> int:
    return side + -side % _LARGEST_BLOCK


def _agree(told: tuple[int, int], decoded: tuple[int, int]) -> None:
    if told != decoded:
        raise Fault(Rule.PIXELS_DECODE, f"decodes to {decoded} pixels, its header says {told}")


def _essential(file: bytes | bytearray, png: Png, checkpoint: Checkpoint) -> BytesIO:
    """The file without the chunks on which no pixel depends."""
    kept = BytesIO()
    kept.write(SIGNATURE)
    with memoryview(file) as view:
        for begin, end in png.essential:
            for at in range(begin, end, SLICE):
                checkpoint()
                kept.write(view[at : min(at + SLICE, end)])
    kept.seek(0)
    return kept


def _check_indices(image: PngImageFile, palette: int, checkpoint: Checkpoint) -> None:
    """Check that every pixel names a colour; decoders read what lies behind the palette."""
    width, height = image.size
    for top in range(0, height, _STRIP):
        checkpoint()
        strip = image.crop((0, top, width, min(top + _STRIP, height)))
        _, highest = strip.getextrema()
        if not isinstance(highest, int | float) or highest >= palette:
            raise Fault(
                Rule.PNG_PALETTE_INDEX,
                f"is a PNG with a pixel of colour {highest}; its palette has {palette}",
            )
