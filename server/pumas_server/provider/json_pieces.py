"""JSON with long base64 in it, put together without looking at the base64 again.

The standard encoder goes through every character of a string in search of what needs escaping. Of
base64 nothing does, and a request may hold tens of megabytes of it: as `Plain` it is joined in as
it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True, slots=True)
class Plain:
    """A string in parts, all of it ASCII in which JSON escapes nothing."""

    parts: tuple[str, ...]


class _NotOfJson(Exception):
    """There is something that the standard encoder does not know."""


def _give_up(value: object) -> NoReturn:
    raise _NotOfJson


#: Made once: `json.dumps` would make one at each call.
_dumps = json.JSONEncoder(ensure_ascii=False, default=_give_up).encode


def encode(value: object) -> bytes:
    """The JSON of `value`, whose strings may be `Plain`."""
    try:
        # Most requests have no medium, and are written in one go.
        return _dumps(value).encode()
    except _NotOfJson:
        pieces: list[bytes] = []
        _encode(value, pieces)
        return b"".join(pieces)


def _encode(value: object, pieces: list[bytes]) -> None:
    match value:
        case Plain(parts):
            pieces += [b'"', *(part.encode("ascii") for part in parts), b'"']
        case Mapping():
            _encode_members(value, pieces)
        case Sequence() if not isinstance(value, str):
            _between(b"[", b"]", value, pieces)
        case _:
            pieces.append(_dumps(value).encode())


def _encode_members(members: Mapping[str, object], pieces: list[bytes]) -> None:
    mark = b"{"
    for name, value in members.items():
        pieces += [mark, _dumps(name).encode(), b": "]
        _encode(value, pieces)
        mark = b", "
    pieces.append(b"}" if members else b"{}")


def _between(begin: bytes, end: bytes, items: Sequence[object], pieces: list[bytes]) -> None:
    mark = begin
    for item in items:
        pieces.append(mark)
        _encode(item, pieces)
        mark = b", "
    pieces.append(end if items else begin + end)
