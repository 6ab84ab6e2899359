"""The files of one model, wherever they lie: the seam that reading a model's description needs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import EndsInHeader, HeaderFault, no_model
from pumas_server.worker.onnx.proto_cursor import Reader


class Files(Protocol):
    """Files below a model's root, by name relative to it, parts separated by `/`."""

    def read(self, name: str, limit: int) -> bytes | None:
        """All of a file; None when it is not there.

        Raises `HeaderFault` when it has more than `limit` bytes, before it reads them.
        """
        ...

    def open(self, name: str) -> AbstractContextManager[Reader] | None:
        """A file to be read from its beginning; None when it is not there."""
        ...


class LocalFiles:
    """The files below a folder of this machine. Links are followed: caches are made of them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str, limit: int) -> bytes | None:
        """See `Files`."""
        return read_whole(self.open(name), name, limit)

    def open(self, name: str) -> AbstractContextManager[Reader] | None:
        """See `Files`. Raises `HeaderFault` for what is no file or cannot be read."""
        path = self._root / name
        try:
            # Looked at before it is opened: opening a pipe would wait for its writer.
            if not stat.S_ISREG(path.stat().st_mode):
                raise no_model(f"the model's {name} is not a regular file")
            return _closing(path.open("rb"), name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(name, error) from None


def read_whole(
    opened: AbstractContextManager[Reader] | None, name: str, limit: int
) -> bytes | None:
    """All of an opened file, as `Files.read` has it."""
    if opened is None:
        return None
    with opened as reader:
        if reader.size > limit:
            raise too_large(name, reader.size, limit)
        return reader.take(reader.size)


def too_large(name: str, size: int, limit: int) -> HeaderFault:
    """The fault of a descriptive file that is too large to be one."""
    return no_model(f"the model's {name} has {size} bytes; the limit is {limit}")


@contextmanager
def _closing(file: BufferedReader, name: str) -> Iterator[Reader]:
    with file:
        yield _LocalReader(file, name)


def _unreadable(name: str, error: OSError) -> HeaderFault:
    # `strerror` alone: the whole error names the path.
    told = error.strerror or "input/output error"
    return HeaderFault(Reason.SOURCE_UNREACHABLE, f"the model's {name} cannot be read: {told}")


class _LocalReader:
    def __init__(self, file: BufferedReader, name: str) -> None:
        self._file = file
        self._name = name
        self._size = os.fstat(file.fileno()).st_size

    @property
    def size(self) -> int:
        return self._size

    def take(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            raise _unreadable(self._name, error) from None
        if len(data) != size:
            raise EndsInHeader(Reason.TRUNCATED, f"the model's {self._name} became shorter")
        return data

    def skip(self, size: int) -> None:
        self._file.seek(size, os.SEEK_CUR)
