"""Pod folders: private, exclusive, and empty but for logs afterwards."""

from __future__ import annotations

import stat
from pathlib import Path

from pumas_local.folder import PodFolder, write_secrets


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
