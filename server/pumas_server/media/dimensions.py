"""How large an image may be, by what its header says: looked at before a pixel is decoded."""

from __future__ import annotations

from pumas_server.contract.bounds import MAX_IMAGE_PIXELS, MAX_IMAGE_SIDE
from pumas_server.media.rules import Fault, Rule, check_bound


def check_dimensions(width: int, height: int) -> None:
    """Raise `Fault` when an image of this size, in pixels, is empty or over a bound."""
    if not width or not height:
        raise Fault(Rule.NOT_EMPTY, f"has no pixels: it is {width} wide and {height} high")
    check_bound(Rule.WIDTH, MAX_IMAGE_SIDE, width)
    check_bound(Rule.HEIGHT, MAX_IMAGE_SIDE, height)
    check_bound(Rule.IMAGE_PIXELS, MAX_IMAGE_PIXELS, width * height)
