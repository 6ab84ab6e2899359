"""A server's files looked at: in parts, without parts, without sizes, changed and broken off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pumas_server.worker import remote_folder
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.proto_cursor import Reader
from pumas_server.worker.remote_file import Unreachable
from pumas_server.worker.remote_folder import RemoteFolder
from support.folder_server import FolderServer, folder_server

#: n squared modulo 251, which repeats itself after 251 bytes.
CONTENT = (bytes(n * n % 251 for n in range(251)) * 11_953)[:3_000_000]
NAME = "deep/graph.onnx"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FolderServer]:
    (tmp_path / "deep").mkdir()
    (tmp_path / NAME).write_bytes(CONTENT)
    with folder_server(tmp_path) as running:
        yield running


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_folder, "LONG_BYTES", 100_000)


def folder(server: FolderServer) -> RemoteFolder:
    return RemoteFolder(lambda name: server.url + name)


def walk(reader: Reader) -> list[bytes]:
    """Some bytes, a short stretch, some, a long one, some, a long one to the end."""
    pieces = [reader.take(10)]
    reader.skip(90_000)
    pieces.append(reader.take(2_000))
    reader.skip(1_200_000)
    pieces.append(reader.take(1))
    reader.skip(1_300_000)
    pieces.append(reader.take(20))
    reader.skip(len(CONTENT) - 2_592_031)
    return pieces


WALKED = [
    CONTENT[:10],
    CONTENT[90_010:92_010],
    CONTENT[1_292_010:1_292_011],
    CONTENT[2_592_011:2_592_031],
]


def read(server: FolderServer) -> list[bytes]:
    opened = folder(server).open(NAME)
    assert opened is not None
    with opened as reader:
        assert reader.size == len(CONTENT)
        return walk(reader)


@pytest.mark.parametrize("tags", [True, False])
def test_long_stretches_are_passed_over(server: FolderServer, tags: bool) -> None:
    server.tags = tags
    parts: list[str] = []
    server.before = lambda _, part: parts.append(part)
    assert read(server) == WALKED
    assert parts == ["", "bytes=1292010-", "bytes=2592011-"], "nothing is asked for at the end"


def test_a_server_without_parts_is_asked_twice_at_the_most(server: FolderServer) -> None:
    server.ranges = False
    assert read(server) == WALKED
    assert len(server.asked) == 2


def test_a_server_that_tells_no_sizes(server: FolderServer) -> None:
    server.lengths = False
    assert read(server) == WALKED
    assert len(server.asked) == 1
    assert folder(server).read(NAME, len(CONTENT)) == CONTENT


def test_what_has_no_size_is_held_up_to_a_limit(
    server: FolderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.lengths = False
    monkeypatch.setattr(remote_folder, "UNSIZED_BYTES_LIMIT", 1 << 20)
    with pytest.raises(HeaderFault, match=r"deep/graph\.onnx is; it has more than 1 MiB"):
        read(server)


def test_a_description_is_read_within_its_limit(server: FolderServer) -> None:
    assert folder(server).read(NAME, len(CONTENT)) == CONTENT
    with pytest.raises(HeaderFault, match="has 3000000 bytes; the limit is 2999999"):
        folder(server).read(NAME, len(CONTENT) - 1)


def test_what_is_not_there(server: FolderServer) -> None:
    assert folder(server).open("absent") is None
    assert folder(server).read("absent", 10) is None


@pytest.mark.parametrize("ranges", [True, False])
def test_another_file_in_its_place_is_noticed(server: FolderServer, ranges: bool) -> None:
    """Of the same size, so that only the ETag tells."""
    server.ranges = ranges

    def change(_: str, part: str) -> None:
        if part:
            (server.folder / NAME).write_bytes(CONTENT[::-1])

    server.before = change
    with pytest.raises(
        Unreachable, match=r"the model's deep/graph\.onnx changed meanwhile"
    ) as told:
        read(server)
    assert told.value.passing


def test_another_size_is_noticed_without_etags(server: FolderServer) -> None:
    server.tags = False

    def change(_: str, part: str) -> None:
        if part:
            (server.folder / NAME).write_bytes(CONTENT + b"x")

    server.before = change
    with pytest.raises(Unreachable, match="changed meanwhile"):
        read(server)


def test_a_file_that_is_gone_when_its_next_part_is_asked_for(server: FolderServer) -> None:
    def remove(_: str, part: str) -> None:
        if part:
            (server.folder / NAME).unlink()

    server.before = remove
    with pytest.raises(Unreachable, match="does not have it"):
        read(server)


@pytest.mark.parametrize("end", [5, 91_000])
def test_a_server_that_breaks_off_may_do_better_later(server: FolderServer, end: int) -> None:
    server.breaks[NAME] = end
    with pytest.raises(Unreachable) as told:
        read(server)
    assert told.value.passing and not told.value.absent
    assert read(server) == WALKED
