"""One CPU for an engine, hence one thread.

The threads of one engine wait for each other spinning; where test processes compete for the CPUs,
two threads take many times as long as one.
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
        psutil.Process(pid).cpu_affinity([random.choice(sorted(os.sched_getaffinity(0)))])


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """What this thread starts within the block has one CPU, for life."""
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {random.choice(sorted(before))})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
