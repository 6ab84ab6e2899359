"""wrk: the script that it is given, and what it prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

#: Patience of wrk: a slow way is slow, and no error.
_TIMEOUT = "60s"
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_RATE = re.compile(r"^Requests/sec:\s+([\d.]+)$", re.MULTILINE)
_LATENCY = re.compile(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s|m)\s*$", re.MULTILINE)
_TROUBLE = re.compile(r"^\s*(Non-2xx or 3xx responses: .*|Socket errors: .*)$", re.MULTILINE)


def build_script(body: bytes) -> str:
    """Lua: each call posts `body` as JSON."""
    quoted = body.decode().replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return (
        f"wrk.method = 'POST'\nwrk.body = '{quoted}'\n"
        "wrk.headers['content-type'] = 'application/json'\n"
    )


def build_command(url: str, script: Path, connections: int, seconds: int) -> Sequence[str | Path]:
    """One thread of wrk; each connection makes one call after another."""
    sizes = (f"-c{connections}", f"-d{seconds}s", "--timeout", _TIMEOUT)
    return ["wrk", "-t1", *sizes, "--latency", "-s", script, url]


def read(printed: str) -> dict[str, float]:
    """Calls a second and the percentiles of their times; ValueError if a call went wrong."""
    trouble = _TROUBLE.search(printed)
    if trouble is not None:
        raise ValueError(trouble[1])
    rate = _RATE.search(printed)
    times = {
        f"p{share}_ms": float(n) * _MILLISECONDS[u] for share, n, u in _LATENCY.findall(printed)
    }
    if rate is None or len(times) != 2:
        raise ValueError(f"this is not what wrk --latency prints: {printed!r}")
    return {"rate": float(rate[1])} | times
