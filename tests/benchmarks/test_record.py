"""A measurement writes its own section and no word beside it."""

from __future__ import annotations

from datetime import date

import pytest
from record import README, build_section, packages, replace
from table import Row, lines

PAGE = "before\n<!-- router: begin -->\nold\n<!-- router: end -->\nafter\n"


def test_what_is_around_the_marks_stays() -> None:
    written = replace(PAGE, "router", "new\n")
    assert written == PAGE.replace("old", "new")
    assert replace(written, "router", "new") == written


@pytest.mark.parametrize(
    "page",
    [
        "none",
        "<!-- router: begin -->",
        "<!-- router: end -->\n<!-- router: begin -->",
        PAGE + PAGE,
    ],
)
def test_without_one_pair_of_marks_nothing_is_written(page: str) -> None:
    with pytest.raises(ValueError, match="are needed"):
        replace(page, "router", "new")


def test_the_page_has_the_marks() -> None:
    assert "x y z" in replace(README.read_text("utf-8"), "router", "x y z")


def test_a_section_tells_when_how_and_on_what() -> None:
    rows = [Row("calls", "5/s", "7/s", False), Row("  p50", "1 ms", "", True)]
    section = build_section(
        date(2026, 11, 30), "make it", "2 cores; wrk 4", "\n".join(lines(rows)), "A note.\n"
    )
    assert section.splitlines() == [
        "Measured on 2026-11-30 by `make it`.",
        "2 cores; wrk 4.",
        "",
        "```",
        f"{'calls':45} {'5/s':32} goal 7/s       NOT MET",
        f"{'  p50':45} 1 ms",
        "```",
        "",
        "A note.",
    ]


def test_versions_are_those_installed() -> None:
    python, aiohttp = packages("aiohttp")
    assert python.startswith("Python 3.") and aiohttp.split()[0] == "aiohttp"
