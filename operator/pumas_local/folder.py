"""A pod's folder on this machine: secrets and run files for its life, logs until the next one.

`DATA/run/<name>-<n>`, mode 0700, with the smallest n that no living process holds. A lock and no
clean-up decides who holds a folder, so a killed process leaves nothing in anyone's way and two
processes with one data folder never share a pod's. A folder that somebody removed under a pod is
made again before the next of its containers starts.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path

LOCK_FILE = ".lock"
LOG_SUFFIX = ".log"
#: One block: a full disk has room for no byte, and still makes empty files.
ROOM_BYTES = 4096
RUN_FOLDER = "run"
logger = logging.getLogger(__name__)


def check_data_folder(data: Path) -> None:
    """Make the folder, if it is not there, and write to it. Raises `OSError` when that fails."""
    run = data / RUN_FOLDER
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=run) as file:
        file.write(bytes(ROOM_BYTES))
        file.flush()


class PodFolder:
    """A claimed folder. `claim` makes one, `release` gives it back."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def claim(cls, parent: Path, name: str) -> PodFolder:
        """Take the first free folder of that name, empty."""
        for number in count():
            path = parent / f"{name}-{number}"
            try:
                folder = cls(path, _lock(path))
            except BlockingIOError:
                continue
            try:
                folder._clear(keep_logs=False)
            except OSError:
                os.close(folder._lock)
                raise
            return folder
        raise AssertionError("count() ended")

    def restore(self) -> bool:
        """Make it again if it was removed; whether that was so. Raises `OSError`."""
        try:
            if os.path.samestat(os.stat(self.path / LOCK_FILE), os.fstat(self._lock)):
                return False
        except FileNotFoundError:
            pass  # it was removed, which is what is asked here
        lock = _lock(self.path)
        os.close(self._lock)
        self._lock = lock
        return True

    def log(self, container: str) -> Path:
        """Where the output of a container goes."""
        return self.path / f"{container}{LOG_SUFFIX}"

    def release(self) -> None:
        """Remove what a pod must not leave behind, keep its logs, and let go."""
        try:
            self._clear(keep_logs=True)
        except OSError as error:
            # Its pod is over, and nobody is helped by a stop that fails.
            logger.warning("%s cannot be emptied: %s", self.path, error.strerror)
        finally:
            os.close(self._lock)

    def _clear(self, *, keep_logs: bool) -> None:
        if not self.path.exists():
            return
        for entry in self.path.iterdir():
            if entry.name == LOCK_FILE or (keep_logs and entry.suffix == LOG_SUFFIX):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _lock(path: Path) -> int:
    """The open lock of the folder, which is made. Raises `BlockingIOError` when another has it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def write_secrets(files: Mapping[Path, str]) -> None:
    """Write each secret for this user's eyes only."""
    for path, text in files.items():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
