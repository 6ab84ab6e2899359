"""`pumas serve` as a user starts it: a process, its terminal, its API."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from support.one_cpu import pin
from support.worker import is_running, until

PUMAS = Path(sys.executable).with_name("pumas")
#: Starting takes seconds of CPU, which is long where test processes compete for it.
_PATIENCE_SECONDS = 60
_API = "serving.pumas.dev/v1alpha1"


def manifest(name: str, **spec: Any) -> dict[str, Any]:
    """A ServedModel document."""
    return {"apiVersion": _API, "kind": "ServedModel", "metadata": {"name": name}, "spec": spec}


class Serving:
    """One running command."""

    def __init__(self, command: list[str | Path]) -> None:
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            process_group=0,
        )
        pin(self.process.pid)
        self.out: list[str] = []
        self.err: list[str] = []
        self._readers = [
            threading.Thread(target=_collect, args=pair, daemon=True)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()
        self.client = httpx.Client(timeout=60)
        self.descendants: list[int] = []

    @property
    def url(self) -> str:
        """Where it serves, as it prints it."""

        def look() -> str | None:
            assert self.process.poll() is None, "".join(self.err)
            found = [line for line in self.out if line.startswith("Pumas serves on ")]
            return found[0].split()[3] if found else None

        return until(look, "the line that says where it serves", _PATIENCE_SECONDS)

    def rows(self) -> dict[str, dict[str, Any]]:
        """The served models by alias."""
        body = self.client.get(f"{self.url}/v1/served-models").json()
        return {row["model"]: row for row in body["models"]}

    def until_row(self, alias: str, **members: Any) -> dict[str, Any]:
        """The row once it has these members."""

        def look() -> dict[str, Any] | None:
            row = self.rows().get(alias, {})
            return row if all(row.get(k) == v for k, v in members.items()) else None

        return until(look, f"{alias} with {members}", _PATIENCE_SECONDS)

    def until_available(self, alias: str, capability: str) -> dict[str, Any]:
        """The row once the capability is available."""
        return until(
            lambda: next(
                (
                    row
                    for row in [self.rows().get(alias, {"capabilities": []})]
                    for c in row["capabilities"]
                    if c["capability"] == capability and c["availability"]["state"] == "available"
                ),
                None,
            ),
            f"{capability} of {alias}",
            _PATIENCE_SECONDS,
        )

    def operate(self, **members: Any) -> httpx.Response:
        """One model operation on text."""
        body = {
            "contract_version": 1,
            "request_id": "t:1",
            "capability": "text_generation",
            "input": {"kind": "text", "text": "hello"},
            "output": "text",
            "options": {"kind": "text_generation", "max_tokens": 8, "temperature": 0},
        }
        return self.client.post(f"{self.url}/v1/model-operations", json=body | members)

    def until_in_flight(self, alias: str, count: int) -> None:
        """Wait until the router has so many calls of one model with its pod."""

        def look() -> bool:
            told = self.client.get(f"{self.url}/metrics").text
            lines = [line for line in told.splitlines() if f'model="{alias}"' in line]
            return any(
                line.startswith("pumas_pod_in_flight{") and line.endswith(f" {count}.0")
                for line in lines
            )

        until(look, f"{count} calls of {alias} in flight")

    def engine(self, alias: str) -> psutil.Process:
        """The engine process of a model."""

        def look() -> psutil.Process | None:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                try:
                    command = child.cmdline()
                except psutil.Error:
                    continue
                if "-a" in command and command[command.index("-a") + 1] == alias:
                    return child
            return None

        return until(look, f"the engine of {alias}")

    def remember(self) -> None:
        """Note who belongs to it now, for `survivors`."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.descendants = [child.pid for child in family]

    def survivors(self) -> list[int]:
        """Who of those still runs."""
        return [pid for pid in self.descendants if is_running(pid)]

    def operations(self) -> list[dict[str, Any]]:
        """The operation lines on stderr."""
        lines = [json.loads(line) for line in self.err if line.startswith("{")]
        return [line for line in lines if "operation" in line]

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal and wait; the exit status."""
        self.remember()
        self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds: float = 30) -> int:
        """The exit status, once there is one and all output was read."""
        status = self.process.wait(seconds)
        for reader in self._readers:
            reader.join()
        return status


def _collect(stream: Any, lines: list[str]) -> None:
    with stream:
        lines.extend(iter(stream.readline, ""))


@contextmanager
def serve(
    folder: Path, *documents: dict[str, Any], arguments: tuple[str, ...] = ()
) -> Iterator[Serving]:
    """Serve documents on a free port; surely gone afterwards."""
    file = folder / "models.yaml"
    file.write_text("\n---\n".join(json.dumps(document) for document in documents))
    running = Serving([PUMAS, "serve", file, "--port", "0", "--data", folder / "data", *arguments])
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.wait()
        running.client.close()
