"""The scripts of this folder that make load: run beside others, read once they are over."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from load.processes import GENERATOR_CORE, HERE, pinned


def generator(name: str, *arguments: object, idle: bool = False) -> subprocess.Popen[str]:
    """One of the scripts; with `idle` it has what nobody else wants of its core."""
    first = ["chrt", "--idle", "0"] if idle else []
    command: list[str | Path] = [*first, sys.executable, HERE / name, *map(str, arguments)]
    return subprocess.Popen(
        pinned(GENERATOR_CORE, command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a generator printed. Raises `RuntimeError` with what it complained of."""
    out, complaint = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r} failed: {complaint[-2000:]}")
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    return told


def printed(name: str, *arguments: object) -> dict[str, Any]:
    """What one of the scripts printed, run to its end. Raises as `finished` does."""
    with ended(generator(name, *arguments)) as process:
        return finished(process)


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A generator that does not outlive the block."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
