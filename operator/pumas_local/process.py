"""One container as one process: its own group, on a leash, its output in a file.

A group and never a session, so that a terminal's end still reaches it; a group of its own, so that
Ctrl-C reaches us alone and we end the pods in our order. The leash is tied to the *thread* that
starts the process (Linux's PDEATHSIG), so containers are started from the main thread.

The event loop's own child watcher is not used: not every loop can make process groups, and only a
wait that leaves the zombie in place keeps the group's id from being reused before the stragglers
of the group are killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pumas_server.worker.leash import leashed


class Process:
    """A started process; `OSError` when it cannot be started. Needs a running event loop."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path
    ) -> None:
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                leashed(command),
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        name = f"wait for {self._child.pid}"
        threading.Thread(target=self._reap, name=name, daemon=True).start()

    @property
    def pid(self) -> int:
        """The process, which leads the group of this id."""
        return self._child.pid

    async def wait(self) -> int:
        """Its exit status, negative for a signal, once the rest of its group is killed too."""
        return await asyncio.shield(self._ended)

    async def end(self, grace_seconds: float) -> None:
        """SIGTERM, then SIGKILL to the whole group once the grace is over, or at cancellation."""
        try:
            if not self._ended.done():
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGTERM)
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace_seconds):
                        await self.wait()
        finally:
            if not self._ended.done():
                self._kill_group()
                await self.wait()

    def _kill_group(self) -> None:
        # macOS answers with EPERM when only a zombie is left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _reap(self) -> None:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._child.wait()
        self._kill_group()
        status = self._child.wait()
        # The loop may be closed: an interpreter that ends at once does not wait for its pods.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended.set_result, status)
