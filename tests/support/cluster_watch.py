"""Watches beside the product's own: which change came when, by one clock for all of them."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from support.cluster import kubectl_command, kubectl_environment

Predicate = Callable[[str, dict[str, Any]], bool]


@dataclass
class Watch:
    """Events of one collection, each with the moment at which it came here."""

    came: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    _arrived: threading.Condition = field(default_factory=threading.Condition)

    def put(self, line: bytes) -> None:
        event = json.loads(line)
        with self._arrived:
            self.came.append((time.monotonic(), event["type"], event["object"]))
            self._arrived.notify_all()

    def first(self, holds: Predicate, since: float, seconds: float) -> float:
        """When the first event of that kind came after `since`; fails after so many seconds."""

        def look() -> float | None:
            return next((at for at, kind, o in self.came if at >= since and holds(kind, o)), None)

        with self._arrived:
            found = self._arrived.wait_for(look, seconds)
        assert found, f"no such event within {seconds:g} s"
        return found


@contextmanager
def watching(path: str) -> Iterator[Watch]:
    """Watch the collection at a path of the API while the block lasts."""
    watch = Watch()
    process = subprocess.Popen(
        [*kubectl_command(), "get", "--raw", f"{path}?watch=1&timeoutSeconds=3600"],
        stdout=subprocess.PIPE,
        env=kubectl_environment(),
    )
    assert process.stdout is not None

    def read(lines: Any) -> None:
        for line in lines:
            watch.put(line)

    reader = threading.Thread(target=read, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        yield watch
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
