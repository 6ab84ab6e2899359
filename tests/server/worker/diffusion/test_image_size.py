"""Which sizes are allowed, and what is said of the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.worker.diffusion.image_size import (
    AREA_LIMIT,
    Sides,
    Size,
    build_sizes,
    read_size,
)
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.served import Unfit

USUAL = build_sizes(Size(512, 512), 64)


def test_a_side_reaches_twice_the_native_side_and_the_area_twice_the_area() -> None:
    assert USUAL.width == USUAL.height == Sides(64, 1024, 64)
    assert (USUAL.area, USUAL.native) == (2 * 512 * 512, Size(512, 512))
    assert build_sizes(Size(768, 512), 64).width.largest == 1536


def test_a_model_for_large_images_is_bounded_by_the_area() -> None:
    large = build_sizes(Size(1024, 1024), 64)
    assert large.area == AREA_LIMIT
    assert large.width.largest == 2048
    widest = build_sizes(Size(2048, 1024), 1024)
    assert (widest.width.largest, widest.height.largest) == (2048, 2048)


@pytest.mark.parametrize("size", [(64, 64), (512, 512), (1024, 512), (704, 704), (64, 1024)])
def test_sizes_within_the_limits_are_allowed(size: tuple[int, int]) -> None:
    assert USUAL.check(Size(*size)) == Size(*size)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ((0, 512), "width is 0; this model allows 64 to 1024"),
        ((512, 32), "height is 32; this model allows 64 to 1024"),
        ((1088, 64), "width is 1088; this model allows 64 to 1024"),
        ((4294967295, 4294967295), "width is 4294967295; this model allows 64 to 1024"),
        ((520, 512), "width is 520; this model allows multiples of 64"),
        ((512, 513), "height is 513; this model allows multiples of 64"),
        ((1024, 1024), "width x height is 1048576 pixels; this model allows 524288"),
    ],
)
def test_other_sizes_are_unfit_by_field_and_limit(size: tuple[int, int], message: str) -> None:
    with pytest.raises(Unfit) as caught:
        USUAL.check(Size(*size))
    assert str(caught.value) == message


@given(width=st.integers(1, 64), height=st.integers(1, 64), step=st.sampled_from([1, 4, 8, 32, 64]))
def test_the_native_size_is_always_allowed(width: int, height: int, step: int) -> None:
    native = Size(width * step, height * step)
    if native.width * native.height > AREA_LIMIT:
        with pytest.raises(HeaderFault, match=f"at most {AREA_LIMIT}"):
            build_sizes(native, step)
        return
    sizes = build_sizes(native, step)
    assert sizes.check(native) == native
    assert sizes.check(Size(step, step)) == Size(step, step)
    for sides in (sizes.width, sizes.height):
        assert sides.smallest <= sides.largest
        assert sides.largest % step == 0
    # The longest sides can be had, each with the shortest of the other.
    sizes.check(Size(sizes.width.largest, step))
    sizes.check(Size(step, sizes.height.largest))


@pytest.mark.parametrize("native", [Size(1 << 15, 1 << 15), Size(96, 64)])
def test_a_native_size_that_cannot_be_is_no_model(native: Size) -> None:
    with pytest.raises(HeaderFault):
        build_sizes(native, 64)


def test_a_size_is_read_as_width_and_height() -> None:
    assert read_size("16x12") == Size(16, 12)
    assert read_size("9999999999x1") == Size(9999999999, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "auto",
        "16",
        "16x",
        "x12",
        "16X12",
        "16*12",
        "0x12",
        "016x12",
        "-1x12",
        "16x12 ",
        "16x12\n",
        "1.5x12",
        "\u0661\u0666x\u0661\u0662",
        "9" * 11 + "x1",
        "1" * 5000 + "x1",
    ],
)
def test_what_is_no_size_is_unfit(text: str) -> None:
    with pytest.raises(Unfit, match=r"^size must be WIDTHxHEIGHT in pixels, such as 512x512$"):
        read_size(text)
