"""Stock engines: llama.cpp servers as somebody else may have started them, and ours seen directly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

from support.healthy import until_healthy
from support.one_cpu import pin
from support.worker import free_ports

_PROGRAM = [sys.executable, "-m", "pumas_server.worker.engine_xllama"]


class PlainEngine:
    """An engine that nobody supervises."""

    def __init__(self, process: subprocess.Popen[bytes], client: httpx.Client) -> None:
        self.process = process
        self.client = client

    @property
    def url(self) -> str:
        """Its root."""
        return str(self.client.base_url).rstrip("/")

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()


@contextmanager
def plain_engine(model: Path, *flags: str, port: int | None = None) -> Iterator[PlainEngine]:
    """A healthy engine without a key; surely gone afterwards."""
    port = port or free_ports(1)[0]
    process = subprocess.Popen(
        [
            *_PROGRAM,
            "-m",
            str(model),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "-t",
            "1",
            *flags,
        ],
        stderr=subprocess.DEVNULL,
    )
    pin(process.pid)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until_healthy(client, process)
            yield PlainEngine(process, client)
    finally:
        process.kill()
        process.wait()


@contextmanager
def engine_client(engine: psutil.Process) -> Iterator[httpx.Client]:
    """A client for an engine of ours, with its own key, past the router."""
    command = engine.cmdline()
    told = {
        flag: command[command.index(flag) + 1] for flag in ("--host", "--port", "--api-key-file")
    }
    key = Path(told["--api-key-file"]).read_text().strip()
    with httpx.Client(
        base_url=f"http://{told['--host']}:{told['--port']}",
        headers={"Authorization": f"Bearer {key}"},
        timeout=30,
    ) as client:
        yield client
