"""`python -m pumas_server.router` as a process before a scripted API server: its environment, its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.kubeconfig import write_kubeconfig
from support.worker import free_ports

COMMAND = [sys.executable, "-m", "pumas_server.router"]

HOME = "pumas-system"
"""The namespace of its Leases."""


def environment(folder: Path, url: str = "http://127.0.0.1:1") -> dict[str, str]:
    """The least that a router needs: its key, and a kubeconfig for the scripted server."""
    (folder / "key").write_text("k" * 64 + "\n")
    kept = ("PATH", "LANG", "PYTHONPATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "HOME": str(folder),
        "KUBECONFIG": str(write_kubeconfig(folder, url, "t")),
        "PUMAS_KEY_SECRET_FILE": str(folder / "key"),
        "PUMAS_NAMESPACE": HOME,
        "HOSTNAME": "pumas-router-0",
        "PUMAS_PROPAGATION_SECONDS": "0",
        "PUMAS_DRAIN_SECONDS": "1",
    }


class RouterProcess:
    """One router, which can be killed and started again at the same port."""

    def __init__(self, folder: Path, url: str, **settings: str) -> None:
        (self.port,) = free_ports(1)
        self.log = folder / f"{settings.get('HOSTNAME', 'router')}.log"
        self._environment = environment(folder, url) | {"PUMAS_PORT": str(self.port)} | settings
        self.process = self._start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL: nothing of it goes on when this returns."""
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """A new process of the same name."""
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(COMMAND, env=self._environment, stderr=log)
