"""Downloads: resumed, never taken for whole too early, one at a time."""

from __future__ import annotations

import shutil
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from pumas_server.worker import download as module
from pumas_server.worker.download import NoRoom, download
from pumas_server.worker.remote_file import Unreachable
from support.file_server import FileServer, file_server

CONTENT = bytes(range(256)) * 400


class Wrong(Exception):
    """The bytes are not what they should be."""


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "source-1" / "w.gguf"


def check(part: Path) -> None:
    if part.read_bytes() != CONTENT:
        raise Wrong


def fetch(server: FileServer, file: Path) -> list[str]:
    said: list[str] = []
    download(server.url, file, check, said.append)
    return said


def leftovers(file: Path) -> list[str]:
    return sorted(path.name for path in file.parent.iterdir() if path != file)


def test_a_file_is_fetched_once(file: Path) -> None:
    with file_server(CONTENT) as server:
        assert fetch(server, file) == []
        assert file.read_bytes() == CONTENT
        assert leftovers(file) == [".lock"]
        fetch(server, file)
        assert len(server.asked) == 1


def test_what_breaks_off_goes_on_where_it_was(file: Path) -> None:
    with file_server(CONTENT, cuts=[1000, 500, 7]) as server:
        said = fetch(server, file)
    assert file.read_bytes() == CONTENT
    asked = [range_ for _, range_ in server.asked]
    assert asked == ["", "bytes=999-", "bytes=1498-", "bytes=1504-"]
    assert said[0] == "the server ended the file too early; going on after 1000 bytes"


def test_another_process_goes_on_too(file: Path) -> None:
    with file_server(CONTENT, cuts=[1000, 0, 0, 0, 0, 0]) as server:
        with pytest.raises(Unreachable):
            fetch(server, file)
        assert not file.exists()
        assert leftovers(file) == [".lock", ".part-w.gguf", ".part-w.gguf.etag"]
        server.cuts, server.asked = [], []
        fetch(server, file)
        assert [range_ for _, range_ in server.asked] == ["bytes=999-"]
    assert file.read_bytes() == CONTENT


@pytest.mark.parametrize("etag", ["", 'W/"v1"'])
def test_parts_that_nobody_vouches_for_are_not_put_together(file: Path, etag: str) -> None:
    with file_server(CONTENT, etag=etag, cuts=[1000]) as server:
        fetch(server, file)
    assert [range_ for _, range_ in server.asked] == ["", ""]
    assert file.read_bytes() == CONTENT


def test_a_file_that_changed_meanwhile_begins_anew(file: Path) -> None:
    with file_server(b"old" * 40_000, etag='"v0"', cuts=[1000, 0, 0, 0, 0, 0]) as server:
        with pytest.raises(Unreachable):
            fetch(server, file)
        server.content, server.etag, server.cuts = CONTENT, '"v1"', []
        fetch(server, file)
    assert file.read_bytes() == CONTENT


def test_a_shorter_successor_leaves_no_tail(file: Path) -> None:
    with file_server(b"x" * 200_000, etag='"v0"', cuts=[150_000, 0, 0, 0, 0, 0]) as server:
        with pytest.raises(Unreachable):
            fetch(server, file)
        server.content, server.etag, server.cuts = CONTENT, '"v1"', []
        fetch(server, file)
    assert file.read_bytes() == CONTENT


def test_a_complete_part_is_checked_and_not_fetched_again(file: Path) -> None:
    file.parent.mkdir(parents=True)
    (file.parent / ".part-w.gguf").write_bytes(CONTENT)
    (file.parent / ".part-w.gguf.etag").write_text('"v1"')
    with file_server(CONTENT) as server:
        fetch(server, file)
    assert [range_ for _, range_ in server.asked] == [f"bytes={len(CONTENT) - 1}-"]
    assert file.read_bytes() == CONTENT


def test_bytes_that_are_wrong_are_removed(file: Path) -> None:
    with file_server(b"wrong") as server:
        for _ in range(2):
            with pytest.raises(Wrong):
                fetch(server, file)
            assert leftovers(file) == [".lock"] and not file.exists()
        server.content = CONTENT
        fetch(server, file)


def test_a_file_of_untold_length(file: Path) -> None:
    with file_server(CONTENT, says_length=False) as server:
        fetch(server, file)
    assert file.read_bytes() == CONTENT


def test_a_passing_refusal_is_asked_again_and_a_lasting_one_is_not(file: Path) -> None:
    with file_server(CONTENT, statuses=[503, 503]) as server:
        fetch(server, file)
        assert len(server.asked) == 3
    with file_server(CONTENT, statuses=[404]) as server, pytest.raises(Unreachable):
        fetch(server, file.with_name("other"))
    assert len(server.asked) == 1


def test_attempts_that_bring_nothing_have_an_end(file: Path) -> None:
    with file_server(CONTENT, statuses=[503] * 100) as server, pytest.raises(Unreachable):
        fetch(server, file)
    assert len(server.asked) == 4


def test_attempts_that_bring_something_go_on(file: Path) -> None:
    with file_server(CONTENT, cuts=[1000] * 50) as server:
        fetch(server, file)
    assert file.read_bytes() == CONTENT


def test_a_cache_without_room_says_how_much_is_missing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 3 << 20))
    with file_server(b"x" * (5 << 20)) as server, pytest.raises(NoRoom) as caught:
        fetch(server, file)
    assert str(caught.value) == "the file has 5 MiB, but the cache has only 3 MiB left"


def test_a_cache_that_fills_up() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this machine has no /dev/full")
    with (
        pytest.raises(NoRoom, match="the cache is full"),
        module._room_minded(),
        full.open("wb", buffering=0) as file,
    ):
        file.write(b"x")


def test_progress_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROGRESS_SECONDS", 0.0)
    with file_server(CONTENT) as server:
        assert fetch(server, file) == ["0 of 0 MiB fetched"]
        server.says_length = False
        assert fetch(server, file.with_name("other")) == ["0 MiB fetched"]


def test_of_two_at_once_one_fetches(file: Path) -> None:
    with file_server(CONTENT) as server:
        threads = [threading.Thread(target=fetch, args=(server, file)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(server.asked) == 1 and file.read_bytes() == CONTENT
