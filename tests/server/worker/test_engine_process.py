"""An engine's process, played by small programs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import PurePath

from pumas_server.worker.engine_process import EngineProcess
from support.worker import is_running

MODEL = PurePath("/srv/tiny.gguf")


async def start(program: str, lines: list[str] | None = None) -> EngineProcess:
    said: list[str] = [] if lines is None else lines
    return await EngineProcess.start([sys.executable, "-c", program], MODEL, said.append)


async def test_both_outputs_are_passed_on_and_the_end_is_explained() -> None:
    lines: list[str] = []
    program = (
        "import os, sys\n"
        "print('backtrace', os.environ['GGML_NO_BACKTRACE'], flush=True)\n"
        "print('0.1 E srv load_model: cannot load /srv/tiny.gguf', file=sys.stderr)\n"
        "sys.exit(3)"
    )
    process = await start(program, lines)
    assert await process.ended() == "The engine ended with exit code 3: cannot load tiny.gguf."
    await process.stop(1)
    assert lines == ["backtrace 1", "0.1 E srv load_model: cannot load /srv/tiny.gguf"]


async def test_a_group_of_its_own_but_no_session() -> None:
    lines: list[str] = []
    process = await start("import os; print(os.getpid(), os.getpgid(0), os.getsid(0))", lines)
    await process.ended()
    await process.stop(1)
    assert [int(word) for word in lines[0].split()] == [process.pid, process.pid, os.getsid(0)]


async def test_stop_asks_first() -> None:
    process = await start("import time; time.sleep(60)")
    began = time.monotonic()
    await process.stop(10)
    assert time.monotonic() - began < 5
    assert await process.ended() == "The engine was ended by SIGTERM."


async def test_and_does_not_ask_twice() -> None:
    lines: list[str] = []
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\n"
        "time.sleep(60)"
    )
    process = await start(program, lines)
    async with asyncio.timeout(10):
        while not lines:  # noqa: ASYNC110 - the lines are a plain list
            await asyncio.sleep(0.01)
    await process.stop(0.2)
    assert not is_running(process.pid)
    assert await process.ended() == "The engine was ended by SIGKILL."


async def test_a_program_that_ends_well_and_never_served_may_be_no_engine() -> None:
    process = await start("pass", [])
    assert await process.ended() == (
        "The engine ended with exit code 0 before it served, and gave no reason:"
        " is the program a llama-server?"
    )
    await process.stop(1)


async def test_a_grandchild_that_holds_the_output_does_not_hold_the_end() -> None:
    lines: list[str] = []
    program = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid)"
    )
    process = await start(program, lines)
    try:
        began = time.monotonic()
        process.ready()
        assert await process.ended() == "The engine ended with exit code 0."
        await process.stop(1)
        assert time.monotonic() - began < 10
    finally:
        os.kill(int(lines[0]), signal.SIGKILL)
