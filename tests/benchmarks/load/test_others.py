"""What others took is told, and too much of it is warned of."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest
from load.others import Others, tell
from load.processes import GENERATOR_CORE, ROUTER_CORE, Way, pinned, processor_seconds

SPIN = [sys.executable, "-c", "while True: pass"]


def test_too_much_is_warned_of() -> None:
    quiet = tell({GENERATOR_CORE: 0.02, ROUTER_CORE: 0.01})
    assert quiet == "others used 1% of the router's core and 2% of the generator's"
    assert "too busy" in tell({GENERATOR_CORE: 0.02, ROUTER_CORE: 0.11})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes to cores")
def test_what_a_way_uses_is_not_taken_for_that_of_others() -> None:
    processes = [subprocess.Popen(pinned(ROUTER_CORE, SPIN)) for _ in range(2)]
    try:
        way, other = (psutil.Process(process.pid) for process in processes)
        others = Others({"ours": Way("ours", "", way)})
        began, used, taken = time.monotonic(), processor_seconds(way), processor_seconds(other)
        until = began + 60
        # Until both have had their part.
        while min(processor_seconds(way) - used, processor_seconds(other) - taken) < 0.3:
            assert time.monotonic() < until
        share = others.shares()[ROUTER_CORE]
        took = time.monotonic() - began
        assert share >= (processor_seconds(other) - taken) / took - 0.1
        assert share <= 1 - (processor_seconds(way) - used) / took + 0.1
    finally:
        for process in processes:
            process.kill()
            process.wait()
