"""The plot is what was measured, and nothing else."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from plot import Point, render

SVG = "{http://www.w3.org/2000/svg}"
WAYS = {
    "bare": [Point(1, 2_000, 0.5, 1.0), Point(8, 4_000, 2.0, 4.0), Point(64, 8_000, 8.0, 16.0)],
    "ours & more": [Point(1, 1_000, 1.0, 30.0)],
}


def circles(text: str) -> dict[str, tuple[float, float]]:
    """Where each dot with a title is."""
    return {
        circle[0].text or "": (float(circle.attrib["cx"]), float(circle.attrib["cy"]))
        for circle in ElementTree.fromstring(text).iter(f"{SVG}circle")
        if len(circle)
    }


def test_every_point_has_a_dot_that_tells_its_figures() -> None:
    dots = circles(render("a title", WAYS))
    assert list(dots) == [
        "bare, connections: 1, 2,000/s, median 0.50 ms, 99th percentile 1.00 ms",
        "bare, connections: 8, 4,000/s, median 2.00 ms, 99th percentile 4.00 ms",
        "bare, connections: 64, 8,000/s, median 8.00 ms, 99th percentile 16.00 ms",
        "ours & more, connections: 1, 1,000/s, median 1.00 ms, 99th percentile 30.00 ms",
    ]


def test_equal_ratios_are_equal_distances() -> None:
    first, second, third, _ = circles(render("a title", WAYS)).values()
    assert math.isclose(second[0] - first[0], third[0] - second[0], abs_tol=0.11)
    assert math.isclose(second[1] - first[1], third[1] - second[1], abs_tol=0.11)
    assert second[0] > first[0] and second[1] < first[1]


def test_the_same_points_give_the_same_bytes() -> None:
    assert render("a title", WAYS) == render("a title", dict(WAYS))


def test_all_of_it_lies_within_the_picture() -> None:
    root = ElementTree.fromstring(render("a title", WAYS))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    texts = [t for t in root.iter(f"{SVG}text") if "x" in t.attrib]
    places = [(float(t.attrib["x"]), float(t.attrib["y"])) for t in texts]
    places += circles(render("a title", WAYS)).values()
    assert all(0 <= across <= width and 0 <= down <= height for across, down in places)


def test_a_way_without_points_is_left_out_and_none_at_all_is_an_error() -> None:
    assert "LiteLLM" not in render("a title", WAYS | {"LiteLLM": []})
    with pytest.raises(ValueError, match="nothing to plot"):
        render("a title", {"ours": []})
