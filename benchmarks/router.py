"""`make bench`: the router beside a bare forwarder, the provider itself, and LiteLLM.

Every way leads to one scripted provider (`load/provider.py`). Generator and provider share one
core, the way that is measured has the other; rounds are interleaved and the median is taken. Beside
a figure stands what the cores did: [generator + provider | router]. A run is void and not counted
when generator or provider used more than 80 % of their core, or both together used it up
(`load/runs.py`). `wrk` makes the finite calls; LiteLLM has an environment of its own.

Prints one table; exits 1 when a goal is missed or a run was void.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import psutil
from load import litellm_proxy
from load.generators import Generators
from load.others import Others, tell
from load.processes import end_with_children
from load.ways import all_ways
from plot import Point, render
from record import README, build_section, machine, packages, replace
from rows import added, answers, finite, streaming
from rows.bench import Bench
from table import Row, lines, print_rows

ROOT = Path(__file__).parents[1]
ROUNDS = 5
TITLE = "One chat completion, forwarded: throughput and time at 1 to 64 connections"
NEEDED = {
    "wrk": "apt-get install wrk (or: brew install wrk, dnf install wrk)",
    "taskset": "apt-get install util-linux (Linux alone pins processes to cores)",
}
NOTES = """\
Beside a figure: [generator + provider | router], shares of a core; the first two have one core
together.
"""


def measure(bench: Bench) -> tuple[list[Row], dict[str, list[Point]]]:
    """All rows, and the points of the plot."""
    finite.warm(bench)
    rows, points = finite.measure(bench)
    rows += added.measure(bench)
    rows += streaming.measure(bench, "passthrough", "/v1/chat/completions", 1000, 0.6)
    rows += streaming.measure(bench, "contract", "/v1/model-operations", 500, 0.9)
    rows += answers.measure(bench)
    return rows, points


def missing() -> list[str]:
    """What this machine lacks, each with where to get it."""
    lacking = [f"{name} is needed: {get}" for name, get in NEEDED.items() if not shutil.which(name)]
    return lacking + (["two cores are needed"] if (psutil.cpu_count() or 1) < 2 else [])


def wrk_version() -> str:
    """The first words that wrk prints of itself."""
    told = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False).stdout
    return " ".join(told.split()[:2])


def main() -> int:
    """Measure, print, and write what was asked for."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    arguments.add_argument("--without-litellm", action="store_true")
    arguments.add_argument("--plot", type=Path, help="write the plot to this file")
    arguments.add_argument("--write", action="store_true", help="write the table into README.md")
    asked = arguments.parse_args()
    end_with_children()
    if lacking := missing():
        print("\n".join(lacking))
        return 1
    if not asked.without_litellm:
        litellm_proxy.install()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        all_ways(Path(folder), with_litellm=not asked.without_litellm) as ways,
    ):
        generators = Generators(ways["direct"].process, Path(folder))
        bench = Bench(generators, ways, asked.rounds)
        others = Others(ways)
        rows, points = measure(bench)
        disturbed = tell(others.shares())
    status = print_rows(rows)
    void = [f"void: {reason}" for reason in bench.void]
    print(*void, disturbed, f"measured in {time.monotonic() - began:.0f} s", sep="\n")
    if asked.plot is not None:
        asked.plot.write_text(render(TITLE, points), "utf-8")
    if asked.write:
        command = " ".join(["python", "benchmarks/router.py", *sys.argv[1:]])
        versions = packages("aiohttp", "uvicorn", "uvloop", "httptools")
        versions += [wrk_version(), *([litellm_proxy.PIN] if "LiteLLM" in ways else [])]
        told = f"{psutil.cpu_count()} cores of {machine()}; {', '.join(versions)}"
        table = "\n".join([*lines(rows), *void, disturbed])
        notes = NOTES
        if asked.plot is not None:
            notes += f"\n![{TITLE}]({os.path.relpath(asked.plot, README.parent)})\n"
        section = build_section(date.today(), command, told, table, notes)
        README.write_text(replace(README.read_text("utf-8"), "router", section), "utf-8")
    return 1 if void else status


if __name__ == "__main__":
    sys.exit(main())
