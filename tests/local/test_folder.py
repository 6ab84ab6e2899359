"""Pod folders: private, exclusive, and empty but for logs afterwards."""

from __future__ import annotations

import logging
import shutil
import stat
from pathlib import Path

import pytest

from pumas_local.folder import PodFolder, check_data_folder, write_secrets


def test_two_pods_of_one_name_get_two_folders(tmp_path: Path) -> None:
    first, second = PodFolder.claim(tmp_path, "tiny"), PodFolder.claim(tmp_path, "tiny")
    assert [first.path.name, second.path.name] == ["tiny-0", "tiny-1"]
    first.release()
    third = PodFolder.claim(tmp_path, "tiny")
    assert third.path == first.path
    for folder in (second, third):
        folder.release()


def test_a_folder_keeps_its_logs_until_it_is_claimed_again(tmp_path: Path) -> None:
    folder = PodFolder.claim(tmp_path, "tiny")
    folder.log("server").write_text("said")
    write_secrets({folder.path / "key" / "engine-key": "sesame"})
    (folder.path / "to-elsewhere").symlink_to(tmp_path)
    folder.release()
    assert sorted(entry.name for entry in folder.path.iterdir()) == [".lock", "server.log"]
    again = PodFolder.claim(tmp_path, "tiny")
    assert [entry.name for entry in again.path.iterdir()] == [".lock"]
    again.release()


def test_nobody_else_reads_it(tmp_path: Path) -> None:
    (tmp_path / "tiny-0").mkdir(mode=0o755)
    folder = PodFolder.claim(tmp_path, "tiny")
    key = folder.path / "key" / "engine-key"
    write_secrets({key: "sesame"})
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder.path, key.parent, key)]
    assert modes == [0o700, 0o700, 0o600]
    assert key.read_text() == "sesame"
    folder.release()


def test_a_folder_that_was_removed_is_made_again_and_still_its_owners_alone(tmp_path: Path) -> None:
    folder = PodFolder.claim(tmp_path, "tiny")
    assert not folder.restore(), "it is there"
    shutil.rmtree(folder.path)
    assert folder.restore()
    other = PodFolder.claim(tmp_path, "tiny")
    assert other.path != folder.path
    for each in (folder, other):
        each.release()


def test_a_folder_that_was_removed_is_released_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = PodFolder.claim(tmp_path, "tiny")
    shutil.rmtree(folder.path)
    folder.release()
    assert caplog.records == []


def test_what_cannot_be_removed_is_told_and_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = PodFolder.claim(tmp_path, "tiny")
    shutil.rmtree(folder.path)
    folder.path.touch()
    with caplog.at_level(logging.WARNING):
        folder.release()
    assert [record.getMessage() for record in caplog.records] == [
        f"{folder.path} cannot be emptied: Not a directory"
    ]


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_data_folder_that_is_a_file_cannot_be_used(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        check_data_folder(tmp_path / "file" / below)


def test_a_data_folder_is_made_and_the_attempt_to_write_leaves_nothing(tmp_path: Path) -> None:
    check_data_folder(tmp_path / "new" / "data")
    assert list((tmp_path / "new" / "data").rglob("*")) == [tmp_path / "new" / "data" / "run"]
