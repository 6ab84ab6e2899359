"""What the router adds to a call, at a steady rate, beside what the bare forwarder adds.

Between two calls at such a rate the cores rest, and waking up is a part of every time: what the
bare forwarder adds in the same run tells how much of it is the machine's.
"""

from __future__ import annotations

from load.bodies import CHAT, OPERATION
from rows.bench import Bench
from table import Row

SECONDS = 2
_CHAT, _OPERATIONS = "/v1/chat/completions", "/v1/model-operations"


def measure(bench: Bench) -> list[Row]:
    """Each way less the provider itself at the same rate, by turns."""
    direct, bare, ours = (bench.ways[name] for name in ("direct", "bare", "ours"))
    calls = {
        "direct": (direct, _CHAT, CHAT, 500),
        "bare": (bare, _CHAT, CHAT, 500),
        "forwarded": (ours, _CHAT, CHAT, 500),
        "direct, slower": (direct, _CHAT, CHAT, 300),
        "bare, slower": (bare, _CHAT, CHAT, 300),
        "contract": (ours, _OPERATIONS, OPERATION, 300),
    }
    runs = {what: bench.runs(f"{what} at a steady rate", call[0]) for what, call in calls.items()}
    for _ in range(bench.rounds):
        for what, call in calls.items():
            runs[what].add(bench.generators.steady(*call, SECONDS))

    def row(label: str, what: str, less: str, key: str, goal: float | None) -> Row:
        added = runs[what].median(key) - runs[less].median(key)
        name = f"{label}, added {key[:3]} at {calls[what][3]}/s"
        told = f"{added:.2f} ms {runs[what].load()}"
        return Row(name, told, f"{goal:g} ms" if goal else "", goal is None or added <= goal)

    return [
        row("forwarded", "forwarded", "direct", "p50_ms", 0.5),
        row("  bare", "bare", "direct", "p50_ms", None),
        row("forwarded", "forwarded", "direct", "p99_ms", 3.0),
        row("  bare", "bare", "direct", "p99_ms", None),
        row("contract", "contract", "direct, slower", "p50_ms", 1.0),
        row("  bare", "bare, slower", "direct, slower", "p50_ms", None),
    ]
