"""Sides and pixels of an image, at their bounds."""

from __future__ import annotations

import pytest

from pumas_server.media.dimensions import check_dimensions
from pumas_server.media.rules import Fault, Rule


@pytest.mark.parametrize(("width", "height"), [(1, 1), (4096, 1024), (1024, 4096), (2048, 2048)])
def test_sizes_within_the_bounds(width: int, height: int) -> None:
    check_dimensions(width, height)


@pytest.mark.parametrize(
    ("width", "height", "rule", "words"),
    [
        (0, 9, Rule.NOT_EMPTY, "0 wide and 9 high"),
        (9, 0, Rule.NOT_EMPTY, "9 wide and 0 high"),
        (0, 5000, Rule.NOT_EMPTY, "has no pixels"),
        (4097, 1, Rule.WIDTH, "`width`: at most 4096 are allowed, it has 4097"),
        (1, 4097, Rule.HEIGHT, "`height`: at most 4096 are allowed, it has 4097"),
        (2049, 2048, Rule.IMAGE_PIXELS, "at most 4194304 are allowed, it has 4196352"),
        (2**32 - 1, 2**32 - 1, Rule.WIDTH, "it has 4294967295"),
    ],
)
def test_sizes_beyond(width: int, height: int, rule: Rule, words: str) -> None:
    with pytest.raises(Fault) as caught:
        check_dimensions(width, height)
    assert caught.value.rule is rule
    assert words in caught.value.words
