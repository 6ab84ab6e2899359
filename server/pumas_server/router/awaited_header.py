"""How much has come of a request's header that has not ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pumas_server.router.header_bounds import MAX_HEADER_BYTES, header_size


class AwaitedHeader:
    """The header that a connection waits for, of one request after another.

    Its bytes are counted by segments, which is too many where a segment holds something else: so it
    is measured where it may be too long.
    """

    __slots__ = ("_earlier", "_segment", "began")

    def __init__(self) -> None:
        self.began = False
        """Whether a request did; blank lines before are none."""
        self._earlier = 0
        self._segment = 0

    def expect(self) -> None:
        """Another one is to come; what was read so far is not of it."""
        self.began = False
        self._earlier = 0

    def came(self, count: int) -> None:
        """So many bytes, in which it may end."""
        self._segment = count

    def lasts(self) -> bool:
        """It did not end in them; gives whether it may go on."""
        self._earlier += self._segment
        return self._earlier <= MAX_HEADER_BYTES

    def fits(self, target: bytes, fields: Iterable[tuple[bytes, bytes]]) -> bool:
        """It ended in them, with that target and those fields; gives whether it may be so long."""
        if self._earlier + self._segment <= MAX_HEADER_BYTES:
            return True
        return header_size(target, fields) <= MAX_HEADER_BYTES
