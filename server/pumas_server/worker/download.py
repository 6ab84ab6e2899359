"""Fetches a file into the cache: resumed where it broke off, and never taken for whole too early.

The bytes go into a part beside the file; with it stands by which ETag they are known, and only
then a later attempt goes on with them. The file gets its name when it is complete and has been
checked. One process fetches at a time; others wait for it and find the file there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pumas_server.worker.remote_file import Part, Unreachable, open_part

Say = Callable[[str], None]
Check = Callable[[Path], None]

#: Attempts in a row that bring no byte before giving up; whoever runs us tries again.
FRUITLESS_LIMIT = 4
PAUSE_SECONDS = 2.0
PROGRESS_SECONDS = 10.0


class NoRoom(Exception):
    """The cache cannot take the file."""


def download(url: str, file: Path, check: Check, say: Say) -> None:
    """Have `file` there, fetched from `url` and passed by `check`, unless it is there already.

    `check` gets the path of the complete bytes and raises when they are not what they should be;
    they are then removed and its exception goes on. Raises `Unreachable` and `NoRoom`.
    """
    with _room_minded():
        file.parent.mkdir(parents=True, exist_ok=True)
        with _alone(file.parent / ".lock"):
            if file.exists():
                return
            part = file.parent / f".part-{file.name}"
            _complete(url, part, say)
            try:
                check(part)
            except BaseException:
                _remove(part)
                raise
            os.replace(part, file)
            _tag(part).unlink(missing_ok=True)


def _complete(url: str, part: Path, say: Say) -> None:
    """Fetch until all bytes are there."""
    fruitless = 0
    while True:
        before = _length(part)
        try:
            if _go_on(url, part, say):
                return
            problem = Unreachable("the server ended the file too early", passing=True)
        except Unreachable as unreachable:
            problem = unreachable
        fruitless = 0 if _length(part) > before else fruitless + 1
        if not problem.passing or fruitless >= FRUITLESS_LIMIT:
            raise problem
        say(f"{problem}; going on after {_length(part)} bytes")
        time.sleep(PAUSE_SECONDS)


def _go_on(url: str, part: Path, say: Say) -> bool:
    """Fetch what is missing; whether that was all."""
    tag = _tag(part)
    validator = tag.read_text("utf-8") if tag.exists() else ""
    # Without an ETag nobody knows whether what is here and what comes belong together. The last
    # byte is asked for again: nothing can be asked for after the end of a complete file.
    start = max(0, _length(part) - 1) if validator else 0
    with open_part(url, start, validator) as coming:
        _check_room(part, coming)
        tag.write_text(coming.validator, "utf-8")
        with part.open("r+b" if coming.start else "wb") as file:
            file.seek(coming.start)
            _write(coming, file.write, say)
            file.flush()
            os.fsync(file.fileno())
        return coming.size is None or _length(part) == coming.size


def _write(coming: Part, write: Callable[[bytes], object], say: Say) -> None:
    done, said = coming.start, time.monotonic()
    for block in coming.blocks():
        write(block)
        done += len(block)
        if (now := time.monotonic()) - said >= PROGRESS_SECONDS:
            said = now
            of = f" of {coming.size >> 20}" if coming.size is not None else ""
            say(f"{done >> 20}{of} MiB fetched")


def _check_room(part: Path, coming: Part) -> None:
    if coming.size is None:
        return
    free = shutil.disk_usage(part.parent).free + _length(part)
    if coming.size > free:
        raise NoRoom(
            f"the file has {coming.size >> 20} MiB, but the cache has only {free >> 20} MiB left"
        )


@contextmanager
def _room_minded() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoom("the cache is full") from None
        raise


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold the lock of a folder; the kernel lets go of it when a process dies."""
    with lock.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _tag(part: Path) -> Path:
    return part.with_name(part.name + ".etag")


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _remove(part: Path) -> None:
    part.unlink(missing_ok=True)
    _tag(part).unlink(missing_ok=True)
