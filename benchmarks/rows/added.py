"""What the router adds to a call, at a steady rate."""

from __future__ import annotations

from load.bodies import CHAT, OPERATION
from rows.bench import Bench
from table import Row

SECONDS = 2


def measure(bench: Bench) -> list[Row]:
    """Ours less the provider itself, forwarded and typed, by turns."""
    direct, ours = bench.ways["direct"], bench.ways["ours"]
    calls = {
        "direct": (direct, "/v1/chat/completions", CHAT, 500),
        "forwarded": (ours, "/v1/chat/completions", CHAT, 500),
        "contract": (ours, "/v1/model-operations", OPERATION, 300),
    }
    runs = {what: bench.runs(f"{what} at a steady rate", call[0]) for what, call in calls.items()}
    for _ in range(bench.rounds):
        for what, call in calls.items():
            runs[what].add(bench.generators.steady(*call, SECONDS))
    rows = []
    for what, key, goal in (
        ("forwarded", "p50_ms", 0.5),
        ("forwarded", "p99_ms", 3.0),
        ("contract", "p50_ms", 1.0),
    ):
        added = runs[what].median(key) - runs["direct"].median(key)
        name = f"{what}, added {key[:3]} at {calls[what][3]}/s"
        told = f"{added:.2f} ms {runs[what].load()}"
        rows.append(Row(name, told, f"{goal:g} ms", added <= goal))
    return rows
