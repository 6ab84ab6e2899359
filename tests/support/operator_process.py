"""`python -m pumas_operator` as a process, with an API server of a test."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from pumas_operator.kinds import LEASE
from support.eventually import eventually
from support.kubeconfig import write_kubeconfig
from support.operator_api import OperatorApi
from support.worker import free_ports

HOME, LEASE_NAME, IDENTITY = "pumas-system", "pumas-operator", "operator-1"
COMMAND = (sys.executable, "-m", "pumas_operator")


def changed(line: str) -> tuple[str, ...]:
    """The same, after a line of Python that may change `program` and `leader`."""
    first = "import sys; from pumas_operator import __main__ as program, leader"
    return (sys.executable, "-c", f"{first}\n{line}\nsys.exit(program.main())")


#: It looks at the Lease many times a second.
IN_A_HURRY = changed("leader.LOOK_SECONDS = leader.RENEW_SECONDS = 0.05")


def environment(folder: Path, url: str = "http://127.0.0.1:1") -> dict[str, str]:
    """What the chart sets, and a kubeconfig in place of a pod's own account."""
    (folder / "key").write_text("k" * 64 + "\n")
    kept = ("PATH", "LANG", "PYTHONPATH")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "HOME": str(folder),
        "HOSTNAME": IDENTITY,
        "KUBECONFIG": str(write_kubeconfig(folder, url)),
        "PUMAS_NAMESPACE": HOME,
        "PUMAS_KEY_SECRET_FILE": str(folder / "key"),
        "PUMAS_WORKER_IMAGE": "registry.example/worker:1",
    }


@dataclass
class Running:
    """The process."""

    process: asyncio.subprocess.Process
    port: int
    log_file: Path

    @property
    def log(self) -> str:
        """All that it has written."""
        return self.log_file.read_text()

    async def until_logged(self, text: str) -> None:
        await eventually(lambda: text in self.log, f"{text!r} in the log")

    async def health(self) -> tuple[int, str]:
        """The answer of `/healthz`, as soon as somebody listens."""
        url = f"http://127.0.0.1:{self.port}/healthz"
        async with asyncio.timeout(20), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(url) as answer:
                        return answer.status, await answer.text()
                except aiohttp.ClientConnectorError:
                    assert self.process.returncode is None, self.log
                    await asyncio.sleep(0.01)

    async def until_health(self, status: int) -> str:
        """What `/healthz` says once it answers with that status."""
        async with asyncio.timeout(20):
            told = await self.health()
            while told[0] != status:
                await asyncio.sleep(0.01)
                told = await self.health()
        return told[1]

    async def ended(self) -> int:
        """Its exit status, once it has ended by itself."""
        async with asyncio.timeout(20):
            return await self.process.wait()

    async def stopped(self, signal: int) -> int:
        """Its exit status after that signal."""
        self.process.send_signal(signal)
        return await self.ended()


@asynccontextmanager
async def operating(
    folder: Path, url: str, *, command: tuple[str, ...] = COMMAND, **settings: str
) -> AsyncIterator[Running]:
    """The process runs until the block is left, unless it ends before."""
    (port,) = free_ports(1)
    log = folder / "operator.log"
    settings = environment(folder, url) | {"PUMAS_HEALTH_PORT": str(port)} | settings
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(*command, env=settings, stderr=file)
    try:
        yield Running(process, port, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def holder(api: OperatorApi) -> str:
    """Who has the Lease; empty when nobody has."""
    lease: dict[str, Any] = api.cluster.objects.get(LEASE, {}).get((HOME, LEASE_NAME), {})
    return str(lease.get("spec", {}).get("holderIdentity", ""))


def give_lease(api: OperatorApi, identity: str) -> None:
    """Somebody takes the Lease."""
    metadata = {"name": LEASE_NAME, "namespace": HOME, "uid": "uid-of-the-lease"}
    api.cluster.put(LEASE, {"metadata": metadata, "spec": {"holderIdentity": identity}})
