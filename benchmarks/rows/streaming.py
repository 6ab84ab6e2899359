"""Many streams of ten events a second, for some seconds."""

from __future__ import annotations

from rows.bench import Bench
from table import Row

EVENTS, RATE = 60, 10


def measure(bench: Bench, what: str, path: str, count: int, core: float) -> list[Row]:
    """Whether an event was lost in any round, how long they were on their way, and the cost."""
    ours = bench.ways["ours"]
    runs = bench.runs(f"{count} {what} streams", ours)
    for _ in range(bench.rounds):
        runs.add(bench.generators.script("streams.py", ours, path, "m", count, EVENTS, RATE))
    events, streams = len(runs) * count * EVENTS, len(runs) * count
    lost = events - runs.total("events") + streams - runs.total("whole")
    late, load = runs.median("p99_ms"), runs.load()
    return [
        Row(f"{what} streams, {count} x {RATE}/s: lost", f"{lost:.0f}", "0", lost == 0),
        Row("  on their way, p99", f"{late:.1f} ms {load}", "100 ms", late <= 100),
        Row("  cores used", f"{load.router:.2f}", f"{core:g}", load.router <= core),
    ]
