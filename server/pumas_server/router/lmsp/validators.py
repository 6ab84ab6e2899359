"""Entity tags, and whether an If-None-Match names one (RFC 9110, 8.8.3 and 13.1.2). Pure.

Ours are weak: a body may be compressed on its way. The comparison of If-None-Match is weak anyway:
what stands before the quotes does not count. A value that is no list of tags matches nothing, so
that its sender gets the whole answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256

_HEX_DIGITS = 32

#: An element of the list and the comma after it. Elements may be empty; commas inside the quotes
#: belong to the tag.
_ELEMENT = re.compile(
    rb'[ \t]*(?:(?:W/)?"(?P<opaque>[\x21\x23-\x7e\x80-\xff]*)"[ \t]*)?(?P<comma>,|\Z)'
)


def etag_of(body: bytes) -> str:
    """The tag of a representation."""
    return f'W/"{sha256(body).hexdigest()[:_HEX_DIGITS]}"'


def none_match(lines: Sequence[bytes], etag: str) -> bool:
    """Whether the condition of these header lines is true: the caller does not have `etag`.

    `*` is false of every representation that exists.
    """
    if not lines:
        return True
    joined = b", ".join(lines)
    if joined.strip(b" \t") == b"*":
        return False
    return etag.removeprefix("W/").strip('"').encode() not in set(_opaque_tags(joined))


def _opaque_tags(joined: bytes) -> Iterator[bytes]:
    """The opaque parts of a whole list; of a malformed one nothing."""
    found: list[bytes] = []
    at = 0
    while element := _ELEMENT.match(joined, at):
        opaque: bytes | None = element["opaque"]
        if opaque is not None:
            found.append(opaque)
        at = element.end()
        if not element["comma"]:
            yield from found
            return
