"""Threads that step back, and the loop's own thread that does not."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from pumas_server.router.niceness import NICENESS, step_back


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_thread_steps_back_and_no_other() -> None:
    own = niceness()
    with ThreadPoolExecutor(1, initializer=step_back) as threads:
        theirs = threads.submit(niceness).result()
    assert theirs == (max(own, NICENESS) if sys.platform == "linux" else own)
    assert niceness() == own
