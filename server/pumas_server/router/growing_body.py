"""A body on its way in, which may become long.

A long one lies in a block of memory that is mapped for it alone and as large as it may become: it
is not copied as it grows, and has no pieces to be joined and given back. Of 32 MiB each of those
held up every call for up to 20 ms. (In huge pages it is worse: who writes to the first byte of one
waits until two megabytes are there.)
"""

from __future__ import annotations

import mmap

from pumas_server.provider.address import Body

#: From here on a body is long: it takes some milliseconds to be read, even if it is one string.
LONG_BYTES = 1_048_576


class GrowingBody:
    """The bytes that came so far, at most `most` of them."""

    __slots__ = ("_block", "_most", "_short", "size")

    def __init__(self, most: int) -> None:
        self.size = 0
        self._most = most
        self._short: Body | bytearray = b""
        self._block: mmap.mmap | None = None

    def append(self, piece: Body) -> None:
        """Some more. Raises `ValueError` for more than `most` in all."""
        begin = self.size
        size = begin + len(piece)
        if size > self._most:
            raise ValueError(f"more than {self._most} bytes")
        self.size = size
        if self._block is None and size < LONG_BYTES:
            if begin == 0:
                # Most bodies come in one piece.
                self._short = piece
                return
            if not isinstance(self._short, bytearray):
                self._short = bytearray(self._short)
            self._short += piece
            return
        if self._block is None:
            self._block = _map(self._most)
            self._block[:begin] = self._short
            self._short = b""
        self._block[begin:size] = piece

    def whole(self) -> Body:
        """All of it; a view of it if it is long. Nothing may be appended afterwards."""
        if self._block is None:
            return bytes(self._short)
        return memoryview(self._block)[: self.size].toreadonly()


def assemble(*parts: Body) -> Body:
    """The parts behind each other."""
    size = sum(map(len, parts))
    if size < LONG_BYTES:
        return b"".join(parts)
    body = GrowingBody(size)
    for part in parts:
        body.append(part)
    return body.whole()


def _map(size: int) -> mmap.mmap:
    """A block of which nothing is there until it is written to."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
