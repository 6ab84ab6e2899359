"""Other programs' words made fit for a status: one bounded line, without addresses and paths.

The scheduler's and the kubelet's own sentences are what people look for, so they are kept; but
they may hold line breaks, control characters, the addresses of registries' servers and the paths
of a node.
"""

from __future__ import annotations

import re

LIMIT = 500
MARK = "[redacted]"

_ADDRESS = re.compile(
    r"""
      \b[a-z][a-z0-9+.-]*://[^\s"']+               # a URL
    | \[[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\](?::\d+)?     # IPv6 in brackets
    | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b         # IPv4
    | (?<![^\s"'(=:])/[\w.][^\s"'),:;]*             # an absolute path
    """,
    re.VERBOSE,
)


def build_sentence(text: str, fallback: str = "") -> str:
    """The text as one line, or `fallback` when there is nothing to read."""
    # Cut first: what follows costs time for each character of a stranger's.
    shown = "".join(c if c.isprintable() else " " for c in text[: 4 * LIMIT])
    line = _ADDRESS.sub(MARK, " ".join(shown.split()))
    if not line:
        return fallback
    return line if len(line) <= LIMIT else line[: LIMIT - 1] + "…"


def last_line(text: str) -> str:
    """The last line that says anything: of a program's output, the one that explains its end."""
    lines = [line for line in text.splitlines() if line.strip()]
    return build_sentence(lines[-1]) if lines else ""
