"""Generators: started on their core, waited for, and what the cores did meanwhile."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
from load import wrk
from load.processes import GENERATOR_CORE, Way, pinned, processor_seconds
from load.runs import Load, Run
from load.scripts import printed

#: A way is quiet when it uses less than this share of a core for as long as that.
_QUIET, _QUIET_SECONDS = 0.1, 0.2
_PATIENCE_SECONDS = 60

T = TypeVar("T")


class Generators:
    """Makes runs; each leaves its way quiet behind it."""

    def __init__(self, provider: psutil.Process, folder: Path) -> None:
        self._provider = provider
        self._folder = folder

    def wrk(self, way: Way, path: str, body: bytes, connections: int, seconds: int) -> Run:
        """Finite calls, as many as go."""
        script = self._folder / "post.lua"
        script.write_text(wrk.build_script(body))
        command = wrk.build_command(way.url + path, script, connections, seconds)
        began, own = time.monotonic(), _children_seconds()
        done, others = self._watched(
            way,
            lambda: subprocess.run(
                pinned(GENERATOR_CORE, command), capture_output=True, text=True, check=False
            ),
        )
        took, used = time.monotonic() - began, _children_seconds() - own
        if done.returncode:
            raise RuntimeError(f"wrk at {way.name}: {done.stderr[-2000:]}")
        try:
            told = wrk.read(done.stdout)
        except ValueError as error:
            raise RuntimeError(f"{way.name} {path}: {error}") from error
        _await_quiet(way)
        return Run(told, Load(used / took, others[0] / took, others[1] / took))

    def script(self, name: str, way: Way, path: str, *arguments: object) -> Run:
        """One of the scripts beside this module. Its start is no part of the measurement."""
        told, others = self._watched(way, lambda: printed(name, way.url, path, *arguments))
        took = told["seconds"]
        _await_quiet(way)
        load = Load(told["processor_seconds"] / took, others[0] / took, others[1] / took)
        return Run(told, load)

    def steady(self, way: Way, path: str, body: bytes, rate: float, seconds: float) -> Run:
        """Calls at a steady rate."""
        file = self._folder / "body.json"
        file.write_bytes(body)
        run = self.script("steady.py", way, path, file, rate, seconds)
        if run.told["failed"]:
            raise RuntimeError(f"{run.told['failed']} calls of {way.name} {path} failed")
        return run

    def _watched(self, way: Way, run: Callable[[], T]) -> tuple[T, list[float]]:
        """What a run gives, and the seconds of processor of provider and router meanwhile."""
        watched = [self._provider, *([] if way.is_provider else [way.process])]
        before = [processor_seconds(one) for one in watched]
        given = run()
        others = [processor_seconds(one) - was for one, was in zip(watched, before, strict=True)]
        return given, [*others, 0.0][:2]


def _children_seconds() -> float:
    """What processes have used that this one started, and that are over."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _await_quiet(way: Way) -> None:
    """A router goes on with calls that nobody waits for; the next way shall not pay for them."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        before = processor_seconds(way.process)
        time.sleep(_QUIET_SECONDS)
        if (processor_seconds(way.process) - before) / _QUIET_SECONDS <= _QUIET:
            return
        if time.monotonic() > until:
            raise RuntimeError(f"{way.name} is busy though nobody asks")
