"""Steps through the bytes of a GGUF header, each step checked before it is taken.

Nothing is read past the end, and nothing is kept whose size a stranger chose.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import EndsInHeader, no_model

#: The engine's own limit.
STRING_BYTES_LIMIT = 1 << 30
#: Strings in all arrays together: thirty times the largest vocabulary, a second's work.
STRINGS_LIMIT = 8 << 20
#: Longer strings, such as chat templates, are not kept.
KEPT_TEXT_BYTES = 4096

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class LongText:
    """A string too long to keep, such as a chat template."""

    size: int
    """Bytes."""


class Cursor:
    """A position in the bytes; every read is checked against their end."""

    __slots__ = ("at", "end", "strings_left", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.at = 0
        self.end = len(view)
        self.strings_left = STRINGS_LIMIT

    def take(self, size: int) -> int:
        """Step over `size` bytes; returns where they begin."""
        begin = self.at
        if size > self.end - begin:
            raise self.ended()
        self.at = begin + size
        return begin

    def ended(self) -> EndsInHeader:
        """The fault of a file that ends too early."""
        return EndsInHeader(
            Reason.TRUNCATED, f"the file ends after {self.end} bytes, within its header"
        )

    def u32(self) -> int:
        """Read 32 bits."""
        value: int = _U32.unpack_from(self.view, self.take(4))[0]
        return value

    def u64(self) -> int:
        """Read 64 bits."""
        value: int = _U64.unpack_from(self.view, self.take(8))[0]
        return value

    def count(self, what: str, limit: int) -> int:
        """Read a number of `what`, which may not exceed `limit`."""
        value = self.u64()
        if value > limit:
            raise no_model(f"its header claims {value} {what}; the limit is {limit}")
        return value

    def name(self, what: str, limit: int) -> str:
        """Read a key or a tensor's name: printable text of at most `limit` bytes."""
        size = self.count(f"bytes for the name of a {what}", limit)
        begin = self.take(size)
        try:
            name = str(self.view[begin : begin + size], "utf-8")
        except UnicodeDecodeError:
            raise no_model(f"the name of a {what} is not UTF-8") from None
        if not name.isprintable():
            raise no_model(f"the name of a {what} has characters that are not printable")
        return name

    def text(self) -> str | LongText:
        """Read a string; of a long one only the length."""
        size = self.count("bytes for a string", STRING_BYTES_LIMIT)
        begin = self.take(size)
        if size > KEPT_TEXT_BYTES:
            return LongText(size)
        return str(self.view[begin : begin + size], "utf-8", "replace")

    def skip_strings(self, count: int) -> None:
        """Step over `count` strings, in the tightest loop Python has: this is where time goes."""
        if count > self.strings_left:
            raise no_model(f"its header claims more than {STRINGS_LIMIT} strings in arrays")
        self.strings_left -= count
        view, at, end, unpack = self.view, self.at, self.end, _U64.unpack_from
        try:
            for _ in range(count):
                at += 8 + unpack(view, at)[0]
                if at > end:
                    raise self.ended()
        except struct.error:
            raise self.ended() from None
        self.at = at
