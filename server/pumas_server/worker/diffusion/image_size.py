"""Which sizes of images a pipeline makes.

Every size is a whole number of steps: what one pixel at the denoiser's lowest resolution is worth
in the image. A side reaches twice the side that the model was trained with, and the area twice that
area, so 512 x 1024 is possible where 512 x 512 is native, and 1024 x 1024 is not: the memory of
the attention grows with the square of the area, and one call must not end a process that others
use. `AREA_LIMIT` bounds the area whatever a configuration claims, so that an image always fits an
answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.served import Unfit

AREA_LIMIT = 1 << 21
"""Pixels: 6 MiB before compression."""
SIDES = ("width", "height")
"""What the sides are called where nobody calls them otherwise."""
_REACH = 2
_SIZE = re.compile(r"([1-9][0-9]{0,9})x([1-9][0-9]{0,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Size:
    """Pixels of an image."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Sides:
    """The lengths that one side can have, in pixels."""

    smallest: int
    largest: int
    step: int

    def check(self, field: str, pixels: int) -> None:
        """Raise `Unfit` when a side is out of the range or no whole number of steps."""
        if not self.smallest <= pixels <= self.largest:
            raise Unfit(f"{field} is {pixels}; this model allows {self.smallest} to {self.largest}")
        if pixels % self.step:
            raise Unfit(f"{field} is {pixels}; this model allows multiples of {self.step}")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that a pipeline allows."""

    width: Sides
    height: Sides
    area: int
    native: Size
    """What the model was trained with; within the limits."""

    def check(self, size: Size, sides: tuple[str, str] = SIDES) -> Size:
        """Return the size; raises `Unfit`, naming the field and the limit, if it is not allowed.

        `sides` are the fields in which the caller wrote the width and the height.
        """
        width, height = sides
        self.width.check(width, size.width)
        self.height.check(height, size.height)
        if size.width * size.height > self.area:
            raise Unfit(
                f"{width} x {height} is {size.width * size.height} pixels;"
                f" this model allows {self.area}"
            )
        return size


def read_size(text: str) -> Size:
    """Parse `WxH`; raises `Unfit`."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise Unfit("size must be WIDTHxHEIGHT in pixels, such as 512x512")
    return Size(int(found[1]), int(found[2]))


def build_sizes(native: Size, step: int) -> Sizes:
    """The sizes of a pipeline with this native size; raises `HeaderFault` when it has none."""
    area = native.width * native.height
    if area > AREA_LIMIT:
        raise no_model(f"an image has {area} pixels; at most {AREA_LIMIT} are supported")
    for pixels in (native.width, native.height):
        if pixels % step:
            raise no_model(f"an image has a side of {pixels} pixels, no multiple of {step}")
    most = min(_REACH * area, AREA_LIMIT)
    return Sizes(
        width=_build_sides(native.width, step, most),
        height=_build_sides(native.height, step, most),
        area=most,
        native=native,
    )


def _build_sides(native: int, step: int, area: int) -> Sides:
    longest = min(_REACH * native, area // step)
    return Sides(smallest=step, largest=max(native, longest - longest % step), step=step)
