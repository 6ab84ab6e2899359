"""A section of `benchmarks/README.md` that a measurement writes: nobody types its figures.

The section lies between two marks; what is around them stays.
"""

from __future__ import annotations

import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path

README = Path(__file__).with_name("README.md")


def replace(text: str, name: str, section: str) -> str:
    """The text with another section between the marks of that name; ValueError without them."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"one {begin} and one {end} after it are needed")
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{section.strip()}\n{end}{rest.partition(end)[2]}"


def build_section(day: date, command: str, versions: str, table: str, notes: str) -> str:
    """When, how and on what it was measured; the table; what is to be said below it."""
    return (
        f"Measured on {day.isoformat()} by `{command}`.\n{versions}.\n\n"
        f"```\n{table.strip()}\n```\n\n{notes.strip()}\n"
    )


def machine() -> str:
    """Processor and kernel, as the system names them."""
    model = platform.processor() or platform.machine()
    about = Path("/proc/cpuinfo")
    if about.exists():
        for line in about.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{model}, {platform.system()} {platform.release()}"


def packages(*names: str) -> list[str]:
    """Python's version and those of packages."""
    return [f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in names)]
