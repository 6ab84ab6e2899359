"""A pod's folder on this machine: secrets and run files for its life, logs until the next one.

`DATA/run/<name>-<n>`, mode 0700, with the smallest n that no living process holds. A lock and no
clean-up decides who holds a folder, so a killed process leaves nothing in anyone's way and two
processes with one data folder never share a pod's.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path

LOCK_FILE = ".lock"
LOG_SUFFIX = ".log"


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
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
            lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            folder = cls(path, lock)
            folder._clear(keep_logs=False)
            return folder
        raise AssertionError("count() ended")

    def log(self, container: str) -> Path:
        """Where the output of a container goes."""
        return self.path / f"{container}{LOG_SUFFIX}"

    def release(self) -> None:
        """Remove what a pod must not leave behind, keep its logs, and let go."""
        self._clear(keep_logs=True)
        os.close(self._lock)

    def _clear(self, *, keep_logs: bool) -> None:
        for entry in self.path.iterdir():
            if entry.name == LOCK_FILE or (keep_logs and entry.suffix == LOG_SUFFIX):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def write_secrets(files: Mapping[Path, str]) -> None:
    """Write each secret for this user's eyes only."""
    for path, text in files.items():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
