"""The files of a model on a server, looked at and not kept: for inspection.

What an ONNX graph is stands everywhere in its file, so a file with its weights inside is read to
its end; long stretches are passed over by asking anew behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import EndsInHeader, HeaderFault
from pumas_server.worker.onnx.files import too_large
from pumas_server.worker.onnx.proto_cursor import Reader
from pumas_server.worker.remote_file import Part, Unreachable, open_part

#: A stretch that is longer is not read: asking again costs less than its bytes.
LONG_BYTES = 4 << 20

UrlOf = Callable[[str], str]


class RemoteFolder:
    """Files below a model's root on a server; see `onnx.files.Files`. Raises `Unreachable` too."""

    def __init__(self, url_of: UrlOf) -> None:
        """`url_of`: the URL of a file by its name below the root."""
        self._url_of = url_of

    def read(self, name: str, limit: int) -> bytes | None:
        """See `Files`."""
        opened = self.open(name)
        if opened is None:
            return None
        with opened as reader:
            if reader.size > limit:
                raise too_large(name, reader.size, limit)
            return reader.take(reader.size)

    def open(self, name: str) -> AbstractContextManager[Reader] | None:
        """See `Files`."""
        stack = ExitStack()
        try:
            part = stack.enter_context(open_part(self._url_of(name)))
        except Unreachable as problem:
            if problem.absent:
                return None
            raise
        return _closing(stack, self._url_of(name), name, part)


@contextmanager
def _closing(stack: ExitStack, url: str, name: str, part: Part) -> Iterator[Reader]:
    with stack:
        if part.size is None:
            raise HeaderFault(
                Reason.NOT_A_MODEL, f"the server does not say how large the model's {name} is"
            )
        yield _RemoteReader(stack, url, name, part, part.size)


class _RemoteReader:
    def __init__(self, stack: ExitStack, url: str, name: str, part: Part, size: int) -> None:
        self._stack = stack
        self._url = url
        self._name = name
        self._validator = part.validator
        self._size = size
        self._blocks = part.blocks()
        self._at = 0
        self._held = memoryview(b"")

    @property
    def size(self) -> int:
        return self._size

    def take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            piece = self._some(size - len(taken))
            taken += piece
        return bytes(taken)

    def skip(self, size: int) -> None:
        if size - len(self._held) > LONG_BYTES:
            self._ask_behind(size)
            return
        while size:
            size -= len(self._some(size))

    def _some(self, most: int) -> memoryview:
        if not self._held:
            block = next(self._blocks, None)
            if block is None:
                raise EndsInHeader(
                    Reason.TRUNCATED, f"the server ended the model's {self._name} too early"
                )
            self._held = memoryview(block)
        piece, self._held = self._held[:most], self._held[most:]
        self._at += len(piece)
        return piece

    def _ask_behind(self, size: int) -> None:
        wanted = self._at + size
        self._held = memoryview(b"")
        if wanted >= self._size:
            self._at, self._blocks = wanted, iter(())
            return
        self._stack.close()
        part = self._stack.enter_context(open_part(self._url, wanted, self._validator))
        if part.size != self._size:
            raise Unreachable(f"the model's {self._name} changed meanwhile", passing=True)
        self._at, self._blocks = part.start, part.blocks()
        if part.start < wanted:
            # The server gives no parts: what comes first is read and thrown away.
            left = wanted - part.start
            while left:
                left -= len(self._some(left))
