"""`python -m pumas_server.worker fetch|inspect|serve`: the containers of our pods.

Each command is imported only when it is asked for: `fetch` does not pay for the supervisor.
"""

from __future__ import annotations

import os
import signal
import sys


def main(arguments: list[str]) -> int:
    """Run one command; returns its exit status."""
    match arguments:
        case ["fetch"]:
            from pumas_server.worker.fetch import main as fetch

            return fetch()
        case ["inspect"]:
            from pumas_server.worker.inspect_source import main as inspect

            return inspect()
        case ["serve"]:
            # PID 1 has no default action for SIGTERM: until the supervisor takes it over, a stop
            # would be lost. Nothing runs yet that would have to be ended first, and an exception
            # could be caught by the module that is just being imported.
            signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
            from pumas_server.worker.supervisor import main as serve

            return serve()
        case _:
            print("usage: python -m pumas_server.worker fetch|inspect|serve", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
