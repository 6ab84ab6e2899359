"""Serving pods and engines as processes: started, asked, waited for, and surely gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from support.one_cpu import pin

KEY = "the-key-of-this-engine"
DEADLINE_SECONDS = 20.0

T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """What `look` returns once that is true; fails when it does not become so."""
    deadline = time.monotonic() + seconds
    while True:
        if found := look():
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def is_running(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class Worker:
    """A supervisor process and what can be asked of it and its engine."""

    def __init__(self, process: subprocess.Popen[bytes], ports: list[int], log: Path) -> None:
        self.process = process
        self.engine = f"http://127.0.0.1:{ports[0]}"
        self.supervisor = f"http://127.0.0.1:{ports[1]}"
        self._log = log
        self._client = httpx.Client(timeout=5)

    def close(self) -> None:
        """Close what was opened to ask."""
        self._client.close()

    @property
    def log(self) -> str:
        """All that supervisor and engine have written."""
        return self._log.read_text(errors="replace")

    def get(self, path: str) -> httpx.Response | None:
        """The supervisor's answer; None while it does not listen."""
        try:
            return self._client.get(self.supervisor + path)
        except httpx.TransportError:
            return None

    def descriptor(self) -> dict[str, Any]:
        """The body of `/descriptor`; empty while the supervisor does not listen."""
        answer = self.get("/descriptor")
        return answer.json() if answer else {}

    def until_state(self, state: str) -> dict[str, Any]:
        """The descriptor once it tells this state."""

        def look() -> dict[str, Any] | None:
            code = self.process.poll()
            assert code is None, f"the supervisor ended with {code}: {self.log}"
            told = self.descriptor()
            return told if told.get("state") == state else None

        return until(look, f"state {state}")

    def engine_pid(self) -> int:
        """The engine's process."""

        def look() -> int | None:
            children = psutil.Process(self.process.pid).children()
            return children[0].pid if children else None

        return until(look, "an engine process")

    def ask_engine(self, path: str, question: Mapping[str, Any]) -> httpx.Response:
        """A call as a router makes it."""
        headers = {"Authorization": f"Bearer {KEY}"}
        return httpx.post(self.engine + path, json=question, headers=headers, timeout=20)

    def terminate(self) -> tuple[int, float]:
        """SIGTERM; the exit status and how long the end took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_SECONDS), time.monotonic() - began


@contextmanager
def worker(
    folder: Path,
    model: Path,
    *,
    ports: list[int] | None = None,
    environ: Mapping[str, str] | None = None,
    **spec: Any,
) -> Iterator[Worker]:
    """A serving pod for a model; `spec` adds members to its WorkerSpec."""
    ports = ports or free_ports(2)
    key_folder = folder / "key"
    key_folder.mkdir(parents=True, exist_ok=True)
    (key_folder / "engine-key").write_text(KEY + "\n")
    told = {
        "alias": "tiny",
        "runtime": "llama.cpp",
        "source": {"path": str(model)},
        "propagationSeconds": 0,
        **spec,
    }
    log = folder / "worker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pumas_server.worker", "serve"],
            env={
                **os.environ,
                "PUMAS_WORKER": json.dumps(told),
                "POD_IP": "127.0.0.1",
                "ENGINE_PORT": str(ports[0]),
                "SUPERVISOR_PORT": str(ports[1]),
                "PUMAS_RUN": str(folder),
                **(environ or {}),
            },
            stdout=output,
            stderr=output,
        )
    pin(process.pid)
    children: list[psutil.Process] = []
    pod = Worker(process, ports, log)
    try:
        yield pod
    finally:
        pod.close()
        if process.poll() is None:
            children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for child in children:
            if child.is_running():
                child.kill()
