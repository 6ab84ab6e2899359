"""Print what an image installs: the named dependency groups of pyproject.toml, one line each.

`pip install .` is complete for a person's machine, engine and command line included; an image
carries the parts that its processes import. The groups say which (PEP 735). pip reads them itself
only from 25.1 on, which the base images don't have; Python alone is enough for this.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements(names: list[str]) -> list[str]:
    """The requirements of the groups, sorted. An unknown group is a KeyError."""
    groups: dict[str, list[str]] = tomllib.loads(PROJECT.read_text("utf-8"))["dependency-groups"]
    return sorted({requirement for name in names for requirement in groups[name]})


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
