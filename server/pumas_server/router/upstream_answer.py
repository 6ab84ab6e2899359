"""A provider's answer as it comes: its header, then its body, held no further than a caller reads.

The connection writes into it, one call reads from it. What came before a fault is read before the
fault is told.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus

#: What one read gives at most: an event loop reads up to 256 KiB from a socket in one go.
PIECE_BYTES = 65_536

#: Above so many bytes nothing more is read from the provider, until half of them are taken.
_HIGH_BYTES = 131_072
_LOW_BYTES = _HIGH_BYTES // 2


class Broken(Exception):
    """The answer's connection ended, or what came on it is no HTTP, before the answer was whole."""


class UpstreamAnswer:
    """One answer. `status` and `headers` are there once `headed` has returned."""

    __slots__ = (
        *("begun", "complete", "headers", "paused", "status"),
        *("_fault", "_held", "_loop", "_pause", "_pieces", "_resume", "_waiter"),
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pause: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        """`pause` and `resume` stop and go on with reading from the provider."""
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        """Names in lower case."""
        self.begun = False
        """Whether its header is whole."""
        self.complete = False
        """Whether its clean end has come; of its body there may be more to read."""
        self.paused = False
        self._loop = loop
        self._pause = pause
        self._resume = resume
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._fault: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    # What the connection tells.

    def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Its header is whole."""
        self.status, self.headers, self.begun = status, headers, True
        self._wake()

    def feed(self, piece: bytes) -> None:
        """Some of its body."""
        self._pieces.append(piece)
        self._held += len(piece)
        if self._held > _HIGH_BYTES and not self.paused:
            self.paused = True
            self._pause()
        self._wake()

    def end(self) -> None:
        """Its body is whole."""
        self.complete = True
        self._wake()

    def fail(self, fault: str) -> None:
        """There will be no more of it. The first fault stays; a whole answer has none."""
        if not self.complete and self._fault is None:
            self._fault = fault
            self._wake()

    # What the call reads.

    async def headed(self) -> None:
        """Return once its header is whole. Raises `Broken`."""
        while not self.begun:
            if self._fault is not None:
                raise Broken(self._fault)
            await self._wait()

    async def read(self) -> bytes:
        """Some of its body, one byte to `PIECE_BYTES`; empty at its clean end. Raises `Broken`."""
        while not self._pieces:
            if self.complete:
                return b""
            if self._fault is not None:
                raise Broken(self._fault)
            await self._wait()
        piece = self._take()
        self._held -= len(piece)
        if self.paused and self._held <= _LOW_BYTES:
            self.paused = False
            self._resume()
        return piece

    def header(self, name: bytes) -> bytes | None:
        """The first value of a field; `name` in lower case."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def content_type(self) -> str:
        """In lower case and without parameters; empty when it has none."""
        told = self.header(b"content-type") or b""
        return told.partition(b";")[0].strip().decode("latin-1").lower()

    @property
    def success(self) -> bool:
        """Whether the provider accepted."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    def _take(self) -> bytes:
        first = self._pieces.popleft()
        size = len(first)
        if size > PIECE_BYTES:
            self._pieces.appendleft(first[PIECE_BYTES:])
            return first[:PIECE_BYTES]
        if not self._pieces:
            return first
        taken = [first]
        while self._pieces and size + len(self._pieces[0]) <= PIECE_BYTES:
            size += len(self._pieces[0])
            taken.append(self._pieces.popleft())
        return b"".join(taken)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
