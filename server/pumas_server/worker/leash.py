"""A child that cannot outlive its parent: `python -I -S leash.py [--parent PID] COMMAND…`.

The script asks Linux for SIGKILL at its parent's death, looks whether the parent died before the
question was heard, and becomes COMMAND; the request survives that. Elsewhere it only becomes
COMMAND. It runs before every engine and every local pod container, so it must start in
milliseconds: standard library only, and nothing imported for `leashed` that it does not need.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
EXIT_PARENT_GONE = 125
EXIT_NOT_FOUND = 127


def leashed(command: Sequence[str]) -> list[str]:
    """The command line that runs `command` on a leash held by this very process."""
    return [sys.executable, "-I", "-S", __file__, "--parent", str(os.getpid()), *command]


def main(arguments: list[str]) -> int:
    """Hold the leash and become the command; returns only when that is impossible."""
    parent = os.getppid()
    if arguments[:1] == ["--parent"]:
        parent, arguments = int(arguments[1]), arguments[2:]
    if sys.platform == "linux":
        import ctypes

        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
            print(f"leash: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
            return EXIT_PARENT_GONE
        if os.getppid() != parent:
            return EXIT_PARENT_GONE
    try:
        os.execvp(arguments[0], arguments)
    except OSError as error:
        print(f"leash: {arguments[0]}: {error.strerror}", file=sys.stderr)
        return EXIT_NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
