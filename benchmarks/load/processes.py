"""Processes of a measurement: pinned to cores, waited for, and what they use of the processor."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

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
    process: psutil.Process | None
    """What is measured; None for the provider itself."""


def pinned(core: int | str, command: Sequence[str | Path]) -> list[str]:
    """The command on one core, or on those of a list."""
    return ["taskset", "-c", str(core), *map(str, command)]


@contextmanager
def started(
    core: int | str, command: Sequence[str | Path], url: str, env: dict[str, str] | None = None
) -> Iterator[psutil.Process]:
    """A process that answers at `url` with less than 500; ended with the block."""
    process = subprocess.Popen(
        pinned(core, command),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | (env or {}),
    )
    try:
        _await(url, process)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except urllib.error.HTTPError as error:
            if error.code < 500:
                return
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} does not answer")
        time.sleep(0.05)


def processor_seconds(process: psutil.Process) -> float:
    """What a process and its children have used."""
    with ExitStack():
        family = [process, *process.children(recursive=True)]
        return sum(sum(one.cpu_times()[:2]) for one in family)
