"""One image: of the declared encoding, whole, of a bounded size, decodable (notes §2.6)."""

from __future__ import annotations

from typing import Literal, assert_never

from pumas_server.media import jpeg, png
from pumas_server.media.dimensions import check_dimensions
from pumas_server.media.png_stream import check_stream
from pumas_server.media.raster import decode_jpeg, decode_png
from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import Checkpoint

Encoding = Literal["png", "jpeg"]


def check_image(encoding: Encoding, file: bytes | bytearray, checkpoint: Checkpoint) -> None:
    """Check the bytes of an image that is declared to be `encoding`, the cheap rules first.

    Raises `Fault`, and what `checkpoint` raises. Bytes that pass decode, in any decoder that keeps
    to the specification, to one picture of a size within the bounds.
    """
    _check_declared(encoding, file)
    match encoding:
        case "png":
            picture = png.read_png(file, checkpoint)
            check_dimensions(picture.header.width, picture.header.height)
            check_stream(file, picture, checkpoint)
            decode_png(file, picture, checkpoint)
        case "jpeg":
            frame = jpeg.read_jpeg(file, checkpoint)
            check_dimensions(frame.width, frame.height)
            decode_jpeg(file, frame)
        case _:
            assert_never(encoding)


def _check_declared(encoding: Encoding, file: bytes | bytearray) -> None:
    held: Encoding
    if file.startswith(png.SIGNATURE):
        held = "png"
    elif file.startswith(jpeg.SIGNATURE):
        held = "jpeg"
    else:
        raise Fault(Rule.AN_IMAGE, f"is declared {encoding}, but holds neither a PNG nor a JPEG")
    if held != encoding:
        raise Fault(Rule.DECLARED_ENCODING, f"is declared {encoding}, but holds {held}")
