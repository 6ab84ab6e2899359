"""README.md as a script: the `console` blocks, run as a person at a terminal would.

Each `$ command` is run in the checkout; the lines below it must appear in its output, in that order,
with numbers allowed to differ. A command that goes on serving is ended by Ctrl-C afterwards.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.one_cpu import on_one_cpu

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@dataclass(frozen=True)
class Step:
    """One command and the lines that the README shows below it."""

    command: str
    shown: tuple[str, ...]


def steps(text: str) -> list[Step]:
    """All commands of the `console` blocks, in order."""
    found: list[Step] = []
    for block in _BLOCK.findall(text):
        command, shown = "", []
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    found.append(Step(command, tuple(shown)))
                command, shown = line[2:], []
            else:
                shown.append(line)
        if command:
            found.append(Step(command, tuple(shown)))
    return found


def section(text: str, title: str) -> str:
    """What stands below a heading of the second level, the heading included."""
    [found] = re.findall(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return str(found)


def normal(line: str) -> str:
    """A line without what differs between runs: colours, numbers, blanks at its end."""
    return re.sub(r"\d+(\.\d+)?", "#", _ANSI.sub("", line)).strip()


def missing(shown: tuple[str, ...], output: str) -> str | None:
    """The first shown line that does not come in the output after those before it."""
    printed = iter(normal(line) for line in output.replace("\r", "\n").split("\n"))
    for line in shown:
        if normal(line) and not any(_shows(normal(line), p) for p in printed):
            return line
    return None


def _shows(line: str, printed: str) -> bool:
    """Whether a line was printed; `…` stands for anything."""
    at = 0
    for part in line.split("…"):
        found = printed.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


class AtTerminal:
    """A command with a terminal of its own."""

    def __init__(self, command: str, env: dict[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 250, 0, 0))
        self.output = ""
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=ROOT,
            env=env,
            preexec_fn=_own_terminal,
        )
        os.close(slave)

    def read_until(self, text: str, seconds: float) -> None:
        """Read until `text` was printed; fails with all output when it is not in time."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            left = deadline - time.monotonic()
            ended = self.process.poll() is not None
            assert left > 0 and not ended, f"{text!r} was not printed:\n{self.output}"
            self._read(min(left, 0.2))

    def interrupt(self, seconds: float = 20) -> int:
        """Ctrl-C; the exit status."""
        os.write(self._master, b"\x03")
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it did not end:\n{self.output}"
            self._read(0.05)
        return self.process.returncode

    def close(self) -> None:
        """Surely gone, in a test that fails too."""
        try:
            if self.process.poll() is None:
                # Ctrl-C first: what has a session of its own by now is not in the group.
                self.interrupt()
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            os.close(self._master)

    def _read(self, seconds: float) -> None:
        if select.select([self._master], [], [], seconds)[0]:
            try:
                self.output += os.read(self._master, 65536).decode(errors="replace")
            except OSError:
                return  # the other side is closed: the process is about to be reaped


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def at_terminal(command: str, env: dict[str, str] | None = None) -> Iterator[AtTerminal]:
    with on_one_cpu():
        running = AtTerminal(command, env)
    try:
        yield running
    finally:
        running.close()
