"""What whoever is not measured took of the cores: figures of a busy machine are no figures."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping

import psutil
from load.processes import GENERATOR_CORE, ROUTER_CORE, Way, processor_seconds

#: Above this share the reader is warned.
DISTURBING = 0.1


class Others:
    """From when it is made until `shares` is asked."""

    def __init__(self, ways: Mapping[str, Way]) -> None:
        self._ways = ways
        self._began = time.monotonic()
        self._busy, self._own = self._read_busy(), self._read_own()

    def shares(self) -> dict[int, float]:
        """By core: the share that neither a way, the provider nor a generator used."""
        took = time.monotonic() - self._began
        busy, own = self._read_busy(), self._read_own()
        return {
            core: max(0.0, busy[core] - self._busy[core] - own[core] + self._own[core]) / took
            for core in self._busy
        }

    def _read_busy(self) -> dict[int, float]:
        times = psutil.cpu_times(percpu=True)
        # Without interrupts: those of the loopback are the measurement's own.
        return {
            core: times[core].user + times[core].nice + times[core].system + times[core].steal
            for core in (GENERATOR_CORE, ROUTER_CORE)
        }

    def _read_own(self) -> dict[int, float]:
        generators = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = {GENERATOR_CORE: generators.ru_utime + generators.ru_stime, ROUTER_CORE: 0.0}
        for way in self._ways.values():
            core = GENERATOR_CORE if way.is_provider else ROUTER_CORE
            own[core] += processor_seconds(way.process)
        return own


def tell(shares: Mapping[int, float]) -> str:
    """In words, with a warning where it is needed."""
    told = f"others used {shares[ROUTER_CORE]:.0%} of the router's core"
    told += f" and {shares[GENERATOR_CORE]:.0%} of the generator's"
    if max(shares.values()) > DISTURBING:
        told += ": too busy a machine for these figures to be believed"
    return told
