"""The process that reads long bodies for a router: `python -m pumas_server.router.body_reader`.

Its input is one request after the other: the length of what is asked and that of the body, both as
eight bytes, what is asked (a pickle), and the body. Its output is as many answers: a length, and a
pickle. It ends with its input, hence with the router, however that ends. Pickles go between the
two processes of one program only.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import BinaryIO

from pumas_server.router.body_reading import Reading, read_anyhow
from pumas_server.router.niceness import step_back
from pumas_server.telemetry import configure_logging

REQUEST = struct.Struct("!QQ")
ANSWER = struct.Struct("!Q")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    while head := requests.read(REQUEST.size):
        asked_bytes, body_bytes = REQUEST.unpack(head)
        asked: Reading[object] = pickle.loads(requests.read(asked_bytes))
        read = read_anyhow(asked, requests.read(body_bytes))
        answer = pickle.dumps(read, pickle.HIGHEST_PROTOCOL)
        del asked, read
        answers.write(ANSWER.pack(len(answer)))
        answers.write(answer)
        answers.flush()
        # Nothing of it stays while there is nothing to read.
        del answer


def main() -> int:
    """The command."""
    step_back()
    # Whatever else is printed here does not get between the answers.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        configure_logging()
        try:
            serve(sys.stdin.buffer, answers)
        except BrokenPipeError:
            return 1  # the router is gone
    return 0


if __name__ == "__main__":
    sys.exit(main())
