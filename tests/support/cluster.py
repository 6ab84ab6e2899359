"""The test cluster from a test: kubectl, a namespace of one's own, and waiting for a condition."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "tests" / "cluster"
STATE = ROOT / ".cache" / "kube"
DATA = STATE / "data"
ADMIN = DATA / "admin.kubeconfig"
DEADLINE_SECONDS = 60.0

T = TypeVar("T")


def script(
    name: str, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of the cluster's scripts; its output and exit status, whatever they are."""
    return subprocess.run(
        [SCRIPTS / name, *arguments], capture_output=True, text=True, env=env, check=False
    )


def soon(look: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """What `look` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)
    return found


@dataclass(frozen=True)
class Kubectl:
    """kubectl against the cluster of KUBECONFIG, or else against the one of `make cluster`."""

    namespace: str = "default"

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Its output; a failure fails the test with what kubectl said."""
        done = self.attempt(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr.strip()}"
        return done.stdout

    def attempt(
        self, *arguments: str, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Its output and exit status, where failing is one of the answers."""
        return subprocess.run(
            [*kubectl_command(), "--namespace", self.namespace, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=kubectl_environment(),
            check=False,
        )

    def get(self, *arguments: str) -> Any:
        """An object, or a list of them, as the API server has it."""
        return json.loads(self("get", *arguments, "--output", "json"))

    def apply(self, *objects: dict[str, Any]) -> None:
        self("apply", "--filename", "-", stdin="---\n".join(json.dumps(o) + "\n" for o in objects))


def foreign() -> bool:
    """Whether KUBECONFIG names another cluster than the one of `make cluster`."""
    return os.environ.get("KUBECONFIG", "") not in ("", str(ADMIN))


def kubectl_command() -> list[str]:
    """The cluster's own kubectl, whose version fits; for another cluster, the one on the PATH."""
    return ["kubectl" if foreign() else str(STATE / "bin" / "kubectl")]


def kubectl_environment() -> dict[str, str]:
    """What it needs to find the cluster."""
    if foreign():
        return dict(os.environ)
    # The cache of what the API server offers goes with the cluster: the next has the same address.
    return {**os.environ, "KUBECONFIG": str(ADMIN), "KUBECACHEDIR": str(DATA / "kubectl")}
