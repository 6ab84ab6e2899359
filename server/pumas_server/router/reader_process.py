"""A router's side of the process that reads long bodies (`body_reader`)."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from contextlib import suppress
from typing import IO

from pumas_server.provider.address import Body
from pumas_server.router import body_reader
from pumas_server.router.body_reader import ANSWER, REQUEST
from pumas_server.router.body_reading import Failed, Found, Got, Reading, Refused

_log = logging.getLogger(__name__)

_PIPE_BYTES = 1_048_576


class ReaderProcess:
    """Started when it is first asked, and again after its end. For one thread; it blocks."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False

    def ask(self, asked: Reading[Got], raw: Body) -> Found[Got] | Refused | Failed | None:
        """What comes of reading a body; None when the process ended meanwhile."""
        what = pickle.dumps(asked, pickle.HIGHEST_PROTOCOL)
        if self._killed:
            return None
        try:
            requests, answers = self._pipes()
            requests.write(REQUEST.pack(len(what), len(raw)) + what)
            requests.write(raw)
            requests.flush()
            (size,) = ANSWER.unpack(_whole(answers, ANSWER.size))
            answer: Found[Got] | Refused | Failed = pickle.loads(_whole(answers, size))
        except (OSError, EOFError):
            status = self.end()
            if not self._killed:
                _log.warning("the process that reads long bodies ended (%s)", status)
            return None
        except Exception:
            # Where its output stands now nobody knows: the next answer would be this one's rest.
            self.end()
            raise
        return answer

    def kill(self) -> None:
        """Have it end for good, at once: who waits for an answer gets None. From any thread."""
        self._killed = True
        if (process := self._process) is not None:
            process.kill()

    def end(self) -> int | None:
        """Wait for its end, and bring that about; its exit status, None when there is none."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                # What is still to be written goes nowhere.
                with suppress(OSError):
                    pipe.close()
        return process.wait()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", body_reader.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pipesize=_PIPE_BYTES,
                # A Ctrl-C at the terminal is the router's to act upon.
                process_group=0,
            )
        requests, answers = self._process.stdin, self._process.stdout
        if requests is None or answers is None:
            raise TypeError("the process was started without pipes")
        return requests, answers


def _whole(answers: IO[bytes], size: int) -> bytes:
    data = answers.read(size)
    if len(data) < size:
        raise EOFError("its output ended")
    return data
