"""Processes of pods, reached from the node: a pod's first process ends at no signal from inside it.

Only with the cluster of `make cluster`, whose node is the machine of the tests.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cluster import soon


def processes(pod_uid: str, program: str) -> list[int]:
    """Those of the pod in whose command line the program is named; none while there are none."""
    return sorted(_find(pod_uid, program))


def _find(pod_uid: str, program: str) -> Iterator[int]:
    marks = (f"pod{pod_uid}", f"pod{pod_uid.replace('-', '_')}")  # cgroupfs's and systemd's
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            group = (entry / "cgroup").read_text("utf-8")
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if program in line and any(mark in group for mark in marks):
            yield int(entry.name)


def kill(pod_uid: str, program: str) -> None:
    """End it at once, without a word; fails when it does not run."""
    found = soon(lambda: processes(pod_uid, program), f"a process of {program}")
    for number in found:
        os.kill(number, signal.SIGKILL)
    soon(lambda: not set(found) & set(processes(pod_uid, program)), f"the end of {program}")


@contextmanager
def paused(pod_uid: str, program: str) -> Iterator[None]:
    """It does nothing while the block lasts, and then goes on where it was."""
    found = soon(lambda: processes(pod_uid, program), f"a process of {program}")
    for number in found:
        os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        for number in found:
            if number in processes(pod_uid, program):
                os.kill(number, signal.SIGCONT)
