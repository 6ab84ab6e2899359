"""The files of a model on a server, looked at and not kept: for inspection.

What an ONNX graph is stands everywhere in its file, so a file with its weights inside is read to
its end; long stretches are passed over by asking anew behind them, where the server gives parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.files import read_whole
from pumas_server.worker.onnx.proto_cursor import Reader
from pumas_server.worker.remote_file import Part, Unreachable, open_part

#: A stretch that is longer is not read: asking again costs less than its bytes.
LONG_BYTES = 4 << 20
#: A file whose size the server does not tell is held whole: as much as the largest tokenizers.
UNSIZED_BYTES_LIMIT = 64 << 20

UrlOf = Callable[[str], str]


class RemoteFolder:
    """Files below a model's root on a server; see `onnx.files.Files`. Raises `Unreachable` too."""

    def __init__(self, url_of: UrlOf) -> None:
        """`url_of`: the URL of a file by its name below the root."""
        self._url_of = url_of

    def read(self, name: str, limit: int) -> bytes | None:
        """See `Files`."""
        return read_whole(self.open(name), name, limit)

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
            held = _hold(part, name)
            yield _RemoteReader(stack, url, name, part.validator, len(held), iter((held,)))
        else:
            yield _RemoteReader(stack, url, name, part.validator, part.size, part.blocks())


def _hold(part: Part, name: str) -> bytes:
    data = bytearray()
    for block in part.blocks():
        data += block
        if len(data) > UNSIZED_BYTES_LIMIT:
            raise no_model(
                f"the server does not say how large the model's {name} is;"
                f" it has more than {UNSIZED_BYTES_LIMIT >> 20} MiB"
            )
    return bytes(data)


class _RemoteReader:
    def __init__(
        self,
        stack: ExitStack,
        url: str,
        name: str,
        validator: str,
        size: int,
        blocks: Iterator[bytes],
    ) -> None:
        self._stack = stack
        self._url = url
        self._name = name
        self._validator = validator
        self._size = size
        self._blocks = blocks
        self._gives_parts = True
        """Until the server shows otherwise: asking anew would then begin at the beginning."""
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
        if self._gives_parts and size - len(self._held) > LONG_BYTES:
            size = self._ask_behind(size)
        while size:
            size -= len(self._some(size))

    def _some(self, most: int) -> memoryview:
        if not self._held:
            block = next(self._blocks, None)
            if block is None:
                raise Unreachable(
                    f"the server ended the model's {self._name} too early", passing=True
                )
            self._held = memoryview(block)
        piece, self._held = self._held[:most], self._held[most:]
        self._at += len(piece)
        return piece

    def _ask_behind(self, size: int) -> int:
        """Ask for what is behind the next `size` bytes; returns how many of them come all the same.

        They do when the server gives no parts.
        """
        wanted = self._at + size
        self._held = memoryview(b"")
        if wanted >= self._size:
            self._at, self._blocks = wanted, iter(())
            return 0
        self._stack.close()
        part = self._stack.enter_context(open_part(self._url, wanted, self._validator))
        if part.size != self._size or self._is_another(part):
            raise Unreachable(f"the model's {self._name} changed meanwhile", passing=True)
        self._gives_parts = part.start == wanted
        self._at, self._blocks = part.start, part.blocks()
        return wanted - part.start

    def _is_another(self, part: Part) -> bool:
        """Whether a part is of another file; one that came as asked for may leave the ETag out."""
        told = bool(part.validator) or not part.start
        return bool(self._validator) and told and part.validator != self._validator
