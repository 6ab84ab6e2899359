"""A router in a process of its own, seen from outside: memory, descriptors, counters, its log."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from load.processes import lives
from prometheus_client.parser import text_string_to_metric_families

#: What has to be nothing once nobody calls.
_LEVELS = ("pumas_permits_in_use", "pumas_sessions", "pumas_buffered_bytes", "pumas_pod_in_flight")
_REST_SECONDS = 60
_SETTLING_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """The process at one time."""

    at: float
    resident_bytes: int
    descriptors: int


@dataclass
class WatchedRouter:
    """See the module. `descriptors` is what it has open at rest."""

    url: str
    process: psutil.Process
    log: Path
    descriptors: int = 0
    _read: int = field(default=0, repr=False)

    def sample(self) -> Sample:
        """How it is now."""
        with self.process.oneshot():
            memory = self.process.memory_info().rss
        return Sample(time.monotonic(), memory, self.process.num_fds())

    def settle(self) -> None:
        """Note the descriptors that it has open at rest."""
        until = time.monotonic() + _SETTLING_SECONDS
        found = []
        while time.monotonic() < until:
            found.append(self.process.num_fds())
            time.sleep(0.1)
        # More are open for a moment whenever the provider is asked what it is.
        self.descriptors = min(found)

    def metrics(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """Every sample of `/metrics`."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value

    def operations(self) -> Counter[str]:
        """Finished calls by `route code outcome`."""
        found: Counter[str] = Counter()
        for name, labels, value in self.metrics():
            if name == "pumas_operations_total":
                key = f"{labels['route']} {labels['code']} {labels['outcome']}"
                found[key] += int(value)
        return found

    def sessions(self) -> int:
        """Calls that are open."""
        return next(int(value) for name, _, value in self.metrics() if name == "pumas_sessions")

    def left(self) -> list[str]:
        """What is still held once nobody calls, after time enough to give it back."""
        deadline = time.monotonic() + _REST_SECONDS
        while held := self._held():
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
        return held

    def _held(self) -> list[str]:
        held = []
        connections = 0.0
        for name, _, value in self.metrics():
            if name in _LEVELS and value:
                held.append(f"{name} {value:g}")
            if name == "pumas_connections_in_use":
                connections = value
        # One of them is the question's own.
        if connections > 1:
            held.append(f"{connections - 1:g} connections")
        open_now = self.process.num_fds()
        if open_now > self.descriptors:
            held.append(f"{open_now - self.descriptors} descriptors")
        return held

    def faults(self) -> list[str]:
        """What its log tells beside operations and warnings, since this was last asked."""
        found = []
        with self.log.open("rb") as log:
            log.seek(self._read)
            for raw in log:
                if not raw.endswith(b"\n"):
                    break
                self._read += len(raw)
                line = raw.decode(errors="replace")
                if not _is_calm(line):
                    found.append(line.rstrip())
        if not lives(self.process):
            found.append("the process is gone")
        return found


def _is_calm(line: str) -> bool:
    """Whether it is one of the router's own lines, and of no fault of its own."""
    try:
        told = json.loads(line)
    except ValueError:
        return False
    calm = told.get("level") in ("info", "warning") and "exception" not in told
    return calm and told.get("code") != "internal_error"
