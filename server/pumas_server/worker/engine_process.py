"""One run of the engine: started on a leash, its output passed on, its end explained.

The engine is never part of the supervisor's process: its assertions abort, and an abort must cost
one restart of it, not the pod's voice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import PurePath

from pumas_server.worker.engine_log import EngineLog, exit_sentence
from pumas_server.worker.leash import leashed

CHUNK = 65_536
OUTPUT_SECONDS = 1.0
"""How long the output of an ended engine may take: a grandchild can hold the pipe open."""


def write_to_stderr(line: str) -> None:
    """Pass one line of an engine's output on, unless the disk that holds it is full.

    The engine serves on without its log, and there is nobody else to be told.
    """
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


class EngineProcess:
    """A running engine. Whoever starts it calls `stop` in the end."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        output: asyncio.StreamReader,
        transport: asyncio.BaseTransport,
        weights: PurePath,
        say: Callable[[str], None],
    ) -> None:
        self._process = process
        self._output = output
        self._transport = transport
        self._say = say
        self._log = EngineLog(weights)
        self._pump = asyncio.create_task(self._pass_on())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        weights: PurePath,
        say: Callable[[str], None] = write_to_stderr,
    ) -> EngineProcess:
        """Start `command`, which serves the file `weights`.

        It dies with this process, and a terminal's Ctrl-C does not reach it.
        """
        # A pipe of our own: asyncio's `wait` for a process waits for the end of its pipes too,
        # and so for grandchildren that hold them.
        output = asyncio.StreamReader()
        read_end, write_end = os.pipe()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(output), os.fdopen(read_end, "rb", buffering=0)
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *leashed(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                process_group=0,
                # Without it an abort spawns a debugger for a backtrace, which takes seconds.
                env={**os.environ, "GGML_NO_BACKTRACE": "1"},
            )
        except BaseException:
            transport.close()
            raise
        finally:
            os.close(write_end)
        return cls(process, output, transport, weights, say)

    @property
    def pid(self) -> int:
        """The engine's process."""
        return self._process.pid

    @property
    def device(self) -> str:
        """Where the engine computes, as far as its log has told."""
        return self._log.device

    def ready(self) -> None:
        """Tell that it serves, so that its complaints while loading explain nothing any more."""
        self._log.ready()

    async def ended(self) -> str:
        """Wait for the end; say why, in a sentence without paths and addresses."""
        returncode = await self._process.wait()
        await asyncio.wait({self._pump}, timeout=OUTPUT_SECONDS)
        return exit_sentence(returncode, self._log.cause(), served=self._log.served)

    async def stop(self, grace_seconds: float) -> None:
        """SIGTERM, then SIGKILL after the grace. Returns when the process is gone."""
        try:
            if self._process.returncode is None:
                self._signal_end(self._process.terminate)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(grace_seconds):
                        await self._process.wait()
        finally:
            if self._process.returncode is None:
                self._signal_end(self._process.kill)
                await self._process.wait()
            await asyncio.wait({self._pump}, timeout=OUTPUT_SECONDS)
            self._pump.cancel()
            self._transport.close()

    @staticmethod
    def _signal_end(send: Callable[[], None]) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself meanwhile
            send()

    async def _pass_on(self) -> None:
        while chunk := await self._output.read(CHUNK):
            for line in self._log.feed(chunk):
                self._say(line)
        for line in self._log.eof():
            self._say(line)
