"""Waiting for an engine process that a test has started by itself."""

from __future__ import annotations

import subprocess

import httpx

from support.worker import until


def until_healthy(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    """Until `/health` says that it serves; fails as soon as the process has ended."""

    def healthy() -> bool:
        assert process.poll() is None
        try:
            return client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    until(healthy, "a healthy engine")
