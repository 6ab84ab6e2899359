"""One CPU for an engine, hence one thread.

The threads of one engine wait for each other spinning; where test processes compete for the CPUs,
two threads take many times as long as one. Each test process has a CPU of its own for its engines,
as long as there are enough: no two share one while another is idle.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


def pin(pid: int) -> None:
    """Give a process, and what it starts from now on, one CPU."""
    if sys.platform == "linux":
        psutil.Process(pid).cpu_affinity([_ours()])


def _ours() -> int:
    cpus = sorted(os.sched_getaffinity(0))
    # What xdist calls its test processes: gw0, gw1, ...
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    return cpus[int(number) % len(cpus)] if number else random.choice(cpus)


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """What this thread starts within the block has one CPU, for life."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_ours()})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
