"""`pumas inspect` as a person runs it, its sheet, and a file that wants to harm the terminal."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

from rich.console import Console

from pumas_local.file_sheet import print_sheet
from pumas_local.inspect_file import FileReport
from support import crafted_gguf as crafted
from support.serve import PUMAS

#: Terminal escapes of one and of two bytes, a bell, forged lines, reversed text, markup.
HOSTILE = "a\x1b[31mb\x07\x9b2Jc\r\npumas: forged\u202ed\x00 [red]e[/red] :warning: \\[f]"


def run(
    *arguments: str | Path | bytes, encoding: str = "utf-8"
) -> subprocess.CompletedProcess[bytes]:
    """The command as a user runs it, its output in pipes."""
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    return subprocess.run(
        [PUMAS, "inspect", *arguments],
        capture_output=True,
        env=env | {"PYTHONIOENCODING": encoding},
        timeout=60,
    )


def printed(report: FileReport, *, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
        highlight=False,
        soft_wrap=True,
    )
    print_sheet(report, console)
    return out.getvalue()


def hostile_file(folder: Path) -> Path:
    """A model that serves, all of whose words are hostile, and so is its own name."""
    metadata = [
        crafted.text("general.architecture", HOSTILE),
        crafted.text("general.name", HOSTILE),
        crafted.text("tokenizer.ggml.model", HOSTILE),
    ]
    path = folder / f"{HOSTILE.replace('/', '').replace(chr(0), '')}.gguf"
    path.write_bytes(crafted.gguf_file(metadata, [crafted.Row()], data=128))
    return path


def unprintable(text: str) -> list[str]:
    """What a terminal would obey and not show, line ends apart."""
    return [c for c in text if not c.isprintable() and c != "\n"]
