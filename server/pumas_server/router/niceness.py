"""Threads that compute for long, and let the event loop go first."""

from __future__ import annotations

import os
import sys
import threading

#: How much less of a processor that is wanted by others such a thread takes.
NICENESS = 10


def step_back() -> None:
    """Let the event loop, and whoever else is on this machine, go before this thread.

    Niceness is a thread's own on Linux; elsewhere it would be the process's, and nothing is done.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
