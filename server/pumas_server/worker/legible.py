"""Text from a stranger (a file's metadata, a file's name), made fit for a status or a log line.

A weights file may say anything of itself: control characters would forge log lines, and long or
unencodable text would break the 4 KiB that a termination message has.
"""

from __future__ import annotations

ELLIPSIS = "…"


def legible(text: str, limit: int) -> str:
    """Return `text` in printable characters, cut to `limit` with an ellipsis."""
    # One character more than fits tells whether anything is cut, however long the text is.
    head = "".join(c if c.isprintable() else "\ufffd" for c in text[: limit + 1])
    return head if len(head) <= limit else head[: limit - 1] + ELLIPSIS
