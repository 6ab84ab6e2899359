"""Processes of a measurement: pinned to cores, waited for, and what they use of the processor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import psutil

HERE = Path(__file__).parent
#: Generator and provider share one core, the router has the other.
GENERATOR_CORE, ROUTER_CORE = 0, 1
STARTING_SECONDS = 60


@dataclass(frozen=True)
class Way:
    """One way to the provider."""

    name: str
    url: str
    process: psutil.Process
    """What is measured."""
    is_provider: bool = False
    """No router: it answers on the generator's core."""


def pinned(core: int | str, command: Sequence[str | Path]) -> list[str]:
    """The command on one core, or on those of a list."""
    return ["taskset", "-c", str(core), *map(str, command)]


@contextmanager
def started(
    core: int | str,
    command: Sequence[str | Path],
    url: str,
    env: dict[str, str] | None = None,
    seconds: float = STARTING_SECONDS,
    log_file: Path | None = None,
) -> Iterator[psutil.Process]:
    """A process that answers at `url` with less than 500; ended with the block.

    One that does not is an error that tells what the process wrote last. What it writes is kept in
    `log_file` for whoever reads it meanwhile.
    """
    with TemporaryFile() if log_file is None else log_file.open("w+b") as log:
        process = subprocess.Popen(
            pinned(core, command), stdout=log, stderr=log, env=os.environ | (env or {})
        )
        try:
            if not _answers(url, process, seconds):
                log.seek(0)
                last = log.read()[-2000:].decode(errors="replace")
                raise RuntimeError(f"{command[0]} does not answer at {url}: {last}")
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str, process: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return True
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return True
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def end_with_children() -> None:
    """Have SIGTERM end this process as an exception does: what it started is ended too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def processor_seconds(process: psutil.Process) -> float:
    """What a process and its children have used."""
    family = [process, *process.children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in family)


def lives(process: psutil.Process) -> bool:
    """Whether it still runs; one that ended and was not waited for does not."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
