"""What a provider drew: checked as strictly as what a caller sends."""

from __future__ import annotations

from pumas_server.contract import bounds
from pumas_server.media import png
from pumas_server.media.canonical_base64 import decode, decoded_size
from pumas_server.media.dimensions import check_dimensions
from pumas_server.media.png_stream import check_stream
from pumas_server.media.raster import decode_png
from pumas_server.media.rules import Fault


class NotValid(Exception):
    """The image breaks a rule of images; the message goes on with a sentence about it."""


def check_generated(text: str) -> tuple[int, int]:
    """Width and height of the PNG in a base64 text, every byte of it checked.

    Raises `NotValid`. Takes as long as decoding does: for a thread.
    """
    try:
        if (size := decoded_size(text)) > bounds.MAX_IMAGE_BYTES:
            raise NotValid(f"has {size} bytes; at most {bounds.MAX_IMAGE_BYTES} are allowed")
        file = decode(text, _go_on)
        picture = png.read_png(file, _go_on)
        check_dimensions(picture.header.width, picture.header.height)
        check_stream(file, picture, _go_on)
        decode_png(file, picture, _go_on)
    except Fault as fault:
        raise NotValid(fault.words) from None
    return picture.header.width, picture.header.height


def _go_on() -> None:
    """The checkpoint of a check that nobody stops: its provider has done the work already."""
