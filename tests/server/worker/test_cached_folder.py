"""Files come into the cache when they are asked for, once, and go when they are of no use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pumas_server.worker.cached_folder import CachedFolder
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.remote_file import Unreachable
from support.folder_server import FolderServer, folder_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FolderServer]:
    served = tmp_path / "served"
    (served / "sub").mkdir(parents=True)
    (served / "config.json").write_bytes(b"{}")
    (served / "sub/w.onnx").write_bytes(b"weights")
    with folder_server(served) as running:
        yield running


def cached(server: FolderServer, root: Path) -> CachedFolder:
    return CachedFolder(root, lambda name: server.url + name, lambda _: None)


def files_below(root: Path) -> list[str]:
    found = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return sorted(path.relative_to(root).as_posix() for path in found)


def test_a_file_is_fetched_once(server: FolderServer, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    folder = cached(server, root)
    assert folder.read("config.json", 10) == folder.read("config.json", 10) == b"{}"
    opened = folder.open("sub/w.onnx")
    assert opened is not None
    with opened as reader:
        assert (reader.size, reader.take(7)) == (7, b"weights")
    assert cached(server, root).read("sub/w.onnx", 10) == b"weights"
    assert server.asked == ["/config.json", "/sub/w.onnx"]
    assert files_below(root) == ["config.json", "sub/w.onnx"]


def test_what_the_server_does_not_have_is_asked_for_once(
    server: FolderServer, tmp_path: Path
) -> None:
    folder = cached(server, tmp_path / "cache")
    assert folder.read("modules.json", 10) is None
    assert folder.open("modules.json") is None
    assert server.asked == ["/modules.json"]
    assert files_below(tmp_path / "cache") == []


def test_a_description_is_bounded(server: FolderServer, tmp_path: Path) -> None:
    with pytest.raises(HeaderFault, match="the limit is 1"):
        cached(server, tmp_path / "cache").read("config.json", 1)


def test_forgetting_removes_what_was_asked_for_and_nothing_else(
    server: FolderServer, tmp_path: Path
) -> None:
    root = tmp_path / "cache"
    cached(server, root).read("sub/w.onnx", 10)
    (root / "own").write_bytes(b"")
    folder = cached(server, root)
    folder.read("sub/w.onnx", 10)
    folder.read("config.json", 10)
    folder.read("absent", 10)
    folder.forget()
    assert files_below(root) == ["own"]
    assert folder.read("config.json", 10) == b"{}", "fetched anew"


def test_a_server_that_refuses_is_not_one_without_the_file(tmp_path: Path) -> None:
    def nowhere(name: str) -> str:
        raise Unreachable("the server answers 403", passing=False)

    with pytest.raises(Unreachable, match="403"):
        CachedFolder(tmp_path, nowhere, lambda _: None).read("config.json", 10)
