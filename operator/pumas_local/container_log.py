"""A container's last words, for the person at the terminal: they may name what no client sees."""

from __future__ import annotations

import os
from pathlib import Path

from pumas_server.worker.legible import legible

TAIL_BYTES = 4096
SHOWN = 512


def last_line(log: Path) -> str:
    """The last line of the file that says anything; empty when there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return legible(lines[-1], SHOWN) if lines else ""
