"""What an engine's output says about its end: bytes in, lines and one sentence out. Pure.

The engine gives the reason for a failure nowhere but in its log: in lines of level ` E `, in an
assertion, in a usage error. Whoever serves the model must learn it; where the file lies and which
addresses there are is nobody's business.
"""

from __future__ import annotations

import re
import signal
from collections import deque
from pathlib import PurePath

from pumas_server.contract.redaction import MARK, redact_foreign

LINE_LIMIT = 2_000
KEPT_ERRORS = 16
_ERROR = re.compile(
    r"""
      ^[\d.]+\ E\s+ (?:\w{3}\s+)? (?:[\w:~()]+:\s+)? (?P<log>.+)$
    | (?P<assertion>GGML_ASSERT\(.*)
    | ^(?:[\w.-]+:\ )?error:\s*(?P<usage>.+)$
    """,
    re.VERBOSE,
)
_DEVICE = re.compile(
    r"^engine_xllama: device: (?P<only>\w+)$|offloaded (?P<there>\d+)/(?P<all>\d+) layers to GPU"
)
_QUOTED_PATH = re.compile(r"""(['"])[^'"/]*/[^'"]*\1""")


class EngineLog:
    """Splits an engine's output into lines of bounded length and keeps the errors among them."""

    def __init__(self, weights: PurePath) -> None:
        self._weights = weights
        self._rest = bytearray()
        self._cut = False
        self._errors: deque[str] = deque(maxlen=KEPT_ERRORS)
        self._ready = False
        self.device = ""
        """Where the engine computes, if it told: `cpu`, or `gpu` and how many layers are there."""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this chunk completes."""
        lines = []
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            self._keep(part)
            lines.append(self._take())
        self._keep(rest)
        return lines

    def eof(self) -> list[str]:
        """The last line, when nothing ended it."""
        return [self._take()] if self._rest else []

    @property
    def served(self) -> bool:
        """Whether the engine came to serve."""
        return self._ready

    def ready(self) -> None:
        """The engine serves: what it complained of while loading did not matter."""
        self._ready = True
        self._errors.clear()

    def cause(self) -> str:
        """The error that explains an end.

        While loading that is the first, and the others are its echoes; later an early error may
        be an old one, about a single request.
        """
        if not self._errors:
            return ""
        error = self._errors[-1 if self._ready else 0]
        # The engine quotes paths or does not, and they may hold blanks; the one that it is sure
        # to name is known.
        error = error.replace(str(self._weights), self._weights.name)
        return redact_foreign(_QUOTED_PATH.sub(MARK, error)).rstrip(" .")

    def _keep(self, part: bytes) -> None:
        room = LINE_LIMIT - len(self._rest)
        self._cut = self._cut or len(part) > room
        self._rest += part[:room]

    def _take(self) -> str:
        line = self._rest.decode("utf-8", "replace").rstrip("\r") + ("…" if self._cut else "")
        self._rest.clear()
        self._cut = False
        if found := _ERROR.search(line):
            self._errors.append(found["log"] or found["assertion"] or found["usage"])
        if told := _DEVICE.search(line):
            on_gpu = told["there"] is not None and int(told["there"]) > 0
            self.device = f"gpu {told['there']}/{told['all']}" if on_gpu else told["only"] or "cpu"
        return line


def exit_sentence(returncode: int, cause: str, *, served: bool = True) -> str:
    """Why a process ended, for people. A cause is believed unless the end came from outside.

    One that never served and complains of nothing may be no engine at all.
    """
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:
            name = f"signal {-returncode}"
        end = f"The engine was ended by {name}"
        outside = -returncode in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
        return f"{end}." if outside or not cause else f"{end}: {cause}."
    end = f"The engine ended with exit code {returncode}"
    if returncode == 0 and not served and not cause:
        return f"{end} before it served, and gave no reason: is the program a llama-server?"
    return f"{end}: {cause}." if cause else f"{end}."
