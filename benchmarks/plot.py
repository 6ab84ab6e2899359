"""Throughput against latency as one SVG, both axes logarithmic.

Written by hand: two axes, lines and dots are shorter than the installation of a library for them.
The same points give the same bytes. The picture brings its own background, light or dark as the
reader's system asks, so that the page it lies on does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 690, 50, 455
#: Colours that those who see fewer of them tell apart, for light and dark backgrounds alike.
_COLOURS = ("#8a8f98", "#e08a00", "#2f81f7", "#c0569b", "#2a9d70", "#b35c3c")
_STYLE = """\
  <style>
    svg { color-scheme: light dark; }
    text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328; }
    .ground { fill: #ffffff; } .grid { stroke: #d1d9e0; } .frame { stroke: #59636e; fill: none; }
    .title { font-size: 15px; font-weight: 600; } .count { font-size: 10px; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .ground { fill: #0d1117; } .grid { stroke: #30363d; } .frame { stroke: #9198a1; }
    }
  </style>"""


@dataclass(frozen=True)
class Point:
    """What a way did under so many connections."""

    connections: int
    rate: float
    p50_ms: float
    p99_ms: float

    TOLD: ClassVar = ("rate", "p50_ms", "p99_ms")


@dataclass(frozen=True)
class _Axis:
    """A logarithmic scale from `low` to `high` on the pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> Iterator[float]:
        exponent = math.floor(math.log10(self.low))
        while 10**exponent <= self.high:
            for step in (1, 2, 5):
                if self.low <= step * 10**exponent <= self.high:
                    yield step * 10**exponent
            exponent += 1


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    """From the 1, 2 or 5 below the least value to the one above the greatest."""
    steps = [s * 10.0**e for e in range(-6, 10) for s in (1, 2, 5)]
    low = max(step for step in steps if step <= min(values))
    high = min(step for step in steps if step > max(values))
    return _Axis(low, high, start, end)


def render(title: str, ways: Mapping[str, Sequence[Point]]) -> str:
    """The SVG of all ways that have points, in their order; ValueError when none has."""
    points = [point for way in ways.values() for point in way]
    if not points:
        raise ValueError("there is nothing to plot: no run counts")
    x = _axis([point.rate for point in points], _LEFT, _RIGHT)
    y = _axis([ms for point in points for ms in (point.p50_ms, point.p99_ms)], _BOTTOM, _TOP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"  <title>{escape(title)}</title>",
        _STYLE,
        f'  <rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        _text(_LEFT, 30, title, css="title"),
        *_grid(x, y),
    ]
    for number, (name, way) in enumerate(ways.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        if way:
            lines += _curve(name, way, colour, x, y)
            lines += _legend(name, colour, _TOP + 14 + 24 * number)
    below = _TOP + 34 + 24 * len(ways)
    lines += [
        f'  <g stroke="{_COLOURS[0]}" stroke-width="2">',
        f'    <path d="M{_RIGHT + 16} {below} h28"/>',
        f'    <path d="M{_RIGHT + 16} {below + 24} h28" stroke-dasharray="5 4"/>',
        "  </g>",
        _text(_RIGHT + 52, below + 4, "median"),
        _text(_RIGHT + 52, below + 28, "99th percentile"),
        _text(_RIGHT + 16, below + 60, "A number at a dot:"),
        _text(_RIGHT + 16, below + 78, "connections."),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _grid(x: _Axis, y: _Axis) -> Iterator[str]:
    for tick in x.ticks():
        at = x.at(tick)
        yield f'  <path class="grid" d="M{at:.1f} {_TOP} V{_BOTTOM}"/>'
        yield _text(at, _BOTTOM + 20, _short(tick), anchor="middle")
    for tick in y.ticks():
        at = y.at(tick)
        yield f'  <path class="grid" d="M{_LEFT} {at:.1f} H{_RIGHT}"/>'
        yield _text(_LEFT - 8, at + 4, _short(tick), anchor="end")
    wide, high = _RIGHT - _LEFT, _BOTTOM - _TOP
    yield f'  <rect class="frame" x="{_LEFT}" y="{_TOP}" width="{wide}" height="{high}"/>'
    yield _text((_LEFT + _RIGHT) / 2, HEIGHT - 18, "calls a second", anchor="middle")
    middle = (_TOP + _BOTTOM) / 2
    yield (
        f'  <text transform="translate(20 {middle:.1f}) rotate(-90)" text-anchor="middle">'
        "time of a call, ms</text>"
    )


def _short(tick: float) -> str:
    return f"{tick / 1000:g}k" if tick >= 1000 else f"{tick:g}"


def _curve(name: str, way: Sequence[Point], colour: str, x: _Axis, y: _Axis) -> Iterator[str]:
    yield f'  <g stroke="{colour}" fill="{colour}" stroke-width="2">'
    for key, dash in (("p50_ms", ""), ("p99_ms", ' stroke-dasharray="5 4"')):
        places = [(x.at(point.rate), y.at(getattr(point, key))) for point in way]
        path = " L".join(f"{across:.1f} {down:.1f}" for across, down in places)
        yield f'    <path d="M{path}" fill="none"{dash}/>'
    for point in way:
        across, down = x.at(point.rate), y.at(point.p50_ms)
        told = (
            f"{name}, connections: {point.connections}, {point.rate:,.0f}/s, "
            f"median {point.p50_ms:.2f} ms, 99th percentile {point.p99_ms:.2f} ms"
        )
        yield f'    <circle cx="{across:.1f}" cy="{down:.1f}" r="3.5" stroke="none">'
        yield f"      <title>{escape(told)}</title></circle>"
    yield "  </g>"
    for point in (way[0], way[-1]) if len(way) > 1 else way:
        across, down = x.at(point.rate), y.at(point.p50_ms)
        yield _text(across + 6, down + 13, str(point.connections), css="count")


def _legend(name: str, colour: str, down: float) -> Iterator[str]:
    yield f'  <circle cx="{_RIGHT + 30}" cy="{down}" r="5" fill="{colour}"/>'
    yield _text(_RIGHT + 52, down + 4, name)


def _text(across: float, down: float, words: str, *, anchor: str = "", css: str = "") -> str:
    more = (f' class="{css}"' if css else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'  <text x="{across:.1f}" y="{down:.1f}"{more}>{escape(words)}</text>'
