"""Large typed answers beside reading and writing their JSON once."""

from __future__ import annotations

import json
import statistics
import time

from load.bodies import EMBEDDINGS, RERANK
from load.provider import DOCUMENTS, INPUTS, WIDTH, build_embeddings, build_ranking
from rows.bench import Bench
from table import Row

RATE, SECONDS = 4, 2


def measure(bench: Bench) -> list[Row]:
    """Embeddings as a multiple of loads + dumps, and a ranking in milliseconds."""
    ours = bench.ways["ours"]
    embeddings, ranking = build_embeddings(), build_ranking()
    embedded, ranked = bench.runs("embeddings", ours), bench.runs("rerank", ours)
    plain: dict[bytes, list[float]] = {embeddings: [], ranking: []}
    for _ in range(bench.rounds):
        for raw, took in plain.items():
            began = time.perf_counter()
            json.dumps(json.loads(raw)).encode()
            took.append((time.perf_counter() - began) * 1000)
        for runs, body in ((embedded, EMBEDDINGS), (ranked, RERANK)):
            runs.add(bench.generators.steady(ours, "/v1/model-operations", body, RATE, SECONDS))
    times = embedded.median("p50_ms") / statistics.median(plain[embeddings])
    took_ms = ranked.median("p50_ms")
    return [
        Row(
            f"embeddings {INPUTS} x {WIDTH:,} : loads + dumps",
            f"{times:.2f} {embedded.load()}",
            "1.5",
            times <= 1.5,
        ),
        Row(f"rerank of {DOCUMENTS}, p50", f"{took_ms:.2f} ms {ranked.load()}", "", True),
    ]
