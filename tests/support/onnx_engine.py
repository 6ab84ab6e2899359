"""The ONNX engine as a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.healthy import until_healthy
from support.worker import KEY, free_ports

COMMAND = [sys.executable, "-P", "-m", "pumas_server.worker.onnx"]


@contextmanager
def onnx_engine(model: Path, key_folder: Path, *flags: str) -> Iterator[httpx.Client]:
    """A client of an engine that has loaded `model`; surely gone afterwards."""
    key_file = key_folder / "engine-key"
    key_file.write_text(f"# a comment\n{KEY}\n")
    port = free_ports(1)[0]
    command = [*COMMAND, "-m", str(model), "-a", "team/tiny", "--port", str(port), "-t", "1"]
    process = subprocess.Popen(
        [*command, "--api-key-file", str(key_file), "--device", "cpu", *flags],
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until_healthy(client, process)
            client.headers["Authorization"] = f"Bearer {KEY}"
            yield client
    finally:
        process.kill()
        process.wait()
