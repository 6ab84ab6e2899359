"""How long a request's header and its target may be, and how long a header that was read is."""

from __future__ import annotations

from collections.abc import Iterable

MAX_HEADER_BYTES = 65_536
MAX_TARGET_BYTES = 8_192

#: What separates and ends a field on the wire.
_FIELD_BYTES = 4


def header_size(target: bytes, fields: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes of a header with that target and those fields, written as briefly as may be."""
    return len(target) + sum(len(name) + len(value) + _FIELD_BYTES for name, value in fields)
