"""The files of a model in the cache, each fetched when it is first asked for.

Reading what a model is asks for every file that it is made of. So reading it through this folder
fetches exactly those, and what is there afterwards is whole.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from pumas_server.worker.download import Say, download
from pumas_server.worker.onnx.files import LocalFiles
from pumas_server.worker.onnx.proto_cursor import Reader
from pumas_server.worker.remote_file import Unreachable
from pumas_server.worker.remote_folder import UrlOf


class CachedFolder:
    """Files below a model's root; see `onnx.files.Files`. Raises `Unreachable` and `NoRoom` too."""

    def __init__(self, root: Path, url_of: UrlOf, say: Say) -> None:
        """`url_of`: the URL of a file by its name below the root."""
        self._root = root
        self._url_of = url_of
        self._say = say
        self._local = LocalFiles(root)
        self._there: set[str] = set()
        self._absent: set[str] = set()

    def read(self, name: str, limit: int) -> bytes | None:
        """See `Files`."""
        return self._local.read(name, limit) if self._have(name) else None

    def open(self, name: str) -> AbstractContextManager[Reader] | None:
        """See `Files`."""
        return self._local.open(name) if self._have(name) else None

    def forget(self) -> None:
        """Remove every file that was asked for, so that another attempt fetches them anew."""
        for name in self._there:
            (self._root / name).unlink(missing_ok=True)
        self._there.clear()

    def _have(self, name: str) -> bool:
        if name in self._absent:
            return False
        if not (self._root / name).exists():
            try:
                download(self._url_of(name), self._root / name, _as_it_is, self._say)
            except Unreachable as problem:
                if problem.absent:
                    self._absent.add(name)
                    return False
                raise
        self._there.add(name)
        return True


def _as_it_is(path: Path) -> None:
    """Descriptions are judged together, when all of them are there."""
