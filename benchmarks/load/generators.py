"""Generators: started on their core, waited for, and what the cores did meanwhile."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from load import wrk
from load.processes import GENERATOR_CORE, HERE, Way, pinned, processor_seconds
from load.runs import Load, Run

#: A way is quiet when it uses less than this share of a core for as long as that.
_QUIET, _QUIET_SECONDS = 0.1, 0.2
_PATIENCE_SECONDS = 60


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
        began = time.monotonic()
        printed, used, others = self._watched(way, command)
        took = time.monotonic() - began
        try:
            told = wrk.read(printed)
        except ValueError as error:
            raise RuntimeError(f"{way.name} {path}: {error}") from error
        _await_quiet(way)
        return Run(told, Load(used / took, others[0] / took, others[1] / took))

    def script(self, name: str, way: Way, path: str, *arguments: object) -> Run:
        """One of the scripts beside this module. Its start is no part of the measurement."""
        command: list[str | Path] = [
            sys.executable,
            HERE / name,
            way.url,
            path,
            *map(str, arguments),
        ]
        printed, _, others = self._watched(way, command)
        told: dict[str, float] = json.loads(printed)
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

    def _watched(self, way: Way, command: Sequence[str | Path]) -> tuple[str, float, list[float]]:
        """What a command prints, its seconds of processor, and those of provider and router."""
        watched = [self._provider, *([] if way.is_provider else [way.process])]
        before = [processor_seconds(one) for one in watched]
        own = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            pinned(GENERATOR_CORE, command), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{command[1]} at {way.name}: {done.stderr[-2000:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
        others = [processor_seconds(one) - was for one, was in zip(watched, before, strict=True)]
        return done.stdout, used, [*others, 0.0][:2]


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
