"""Canonical base64 as one would check it without minding the time: by encoding again."""

from __future__ import annotations

import base64
import binascii


def decoded(text: str) -> bytes | None:
    """The bytes of a canonical text, None for any other."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None
