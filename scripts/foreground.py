"""Run a command so that Ctrl-C reaches it alone, and `make` ends as the command did.

`make` dies of the very signal that its recipe handles in good order. At a terminal the command
therefore gets a process group of its own, in the foreground; a signal sent to this wrapper goes on
to it. Without a terminal nothing is changed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(command: list[str]) -> int:
    """Run `command`; its exit status."""
    if not os.isatty(0):
        os.execvp(command[0], command)
    terminal = os.open("/dev/tty", os.O_RDWR)
    child = subprocess.Popen(command, process_group=0)

    def forward(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in FORWARDED:
        signal.signal(number, forward)
    # Giving the terminal away, and taking it back, stops whoever is not in the foreground.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(terminal, child.pid)
    try:
        return child.wait()
    finally:
        os.tcsetpgrp(terminal, os.getpgrp())


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.exit(status if status >= 0 else 128 - status)
