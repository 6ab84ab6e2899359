"""One table for all that is measured: what, figure, goal, met or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass
class Row:
    """One line of the table. A row without a goal is told beside the others and met."""

    what: str
    figure: str
    goal: str
    met: bool


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """The table as text."""
    for row in rows:
        verdict = f"goal {row.goal:9} {'met' if row.met else 'NOT MET'}" if row.goal else ""
        yield f"{row.what:45} {row.figure:32} {verdict}".rstrip()


def print_rows(rows: Sequence[Row]) -> int:
    """Print them; the exit status, 1 when a goal is missed."""
    for line in lines(rows):
        print(line, flush=True)
    return 0 if all(row.met for row in rows) else 1
