"""Finite calls, as many as go: every way at a growing number of connections, and the contract.

One measurement for two readers: the table compares the ways at 32 connections, the plot shows all.
"""

from __future__ import annotations

from load.bodies import CHAT, OPERATION
from load.runs import Runs
from plot import Point
from rows.bench import Bench
from table import Row

CONNECTIONS = (1, 4, 16, 32, 64)
COMPARED = 32
#: Of a run. A slow way has longer ones: calls that are under way at the end are not counted.
SECONDS, COMPARED_SECONDS = 1, 2
SLOW_SECONDS, SLOW_COMPARED_SECONDS = 3, 8
_SLOW = ("LiteLLM",)


def warm(bench: Bench) -> None:
    """Every way makes its calls for a while before anything is measured."""
    for way in bench.ways.values():
        bench.generators.wrk(way, "/v1/chat/completions", CHAT, 8, SLOW_SECONDS)
    bench.generators.wrk(bench.ways["ours"], "/v1/model-operations", OPERATION, 8, SLOW_SECONDS)


def measure(bench: Bench) -> tuple[list[Row], dict[str, list[Point]]]:
    """The rows, and the points of each way."""
    forwarded = {
        (name, connections): bench.runs(f"finite calls at {connections} connections", way)
        for connections in CONNECTIONS
        for name, way in bench.ways.items()
    }
    ours = bench.ways["ours"]
    typed = bench.runs("contract operations", ours)
    for _ in range(bench.rounds):
        for (name, connections), runs in forwarded.items():
            way, seconds = bench.ways[name], _seconds(name, connections)
            runs.add(bench.generators.wrk(way, "/v1/chat/completions", CHAT, connections, seconds))
        run = bench.generators.wrk(
            ours, "/v1/model-operations", OPERATION, COMPARED, COMPARED_SECONDS
        )
        typed.add(run)

    compared = {name: forwarded[name, COMPARED] for name in bench.ways}
    rate = {name: runs.median("rate") for name, runs in compared.items()}
    rows = [
        Row(f"finite calls, {name}", f"{rate[name]:,.0f}/s {runs.load()}", "", True)
        for name, runs in compared.items()
    ]
    share = rate["ours"] / rate["bare"]
    rows.append(Row("  ours : bare", f"{share:.2f}", "0.6", share >= 0.6))
    if "LiteLLM" in rate:
        times = rate["ours"] / rate["LiteLLM"]
        rows.append(Row("  ours : LiteLLM", f"{times:.0f}", "50", times >= 50))
    rows += [
        Row(f"  per second of its processor, {name}", f"{_paced(runs):,.0f}", "", True)
        for name, runs in compared.items()
        if name != "direct"
    ]
    alone = {name: forwarded[name, 1].median("p50_ms") for name in bench.ways}
    rows += [
        Row(f"  added p50, one connection, {name}", f"{p50 - alone['direct']:.2f} ms", "", True)
        for name, p50 in alone.items()
        if name != "direct"
    ]
    contract = typed.median("rate")
    told = f"{contract:,.0f}/s {typed.load()}"
    rows.append(Row("contract operations, finite", told, "1200/s", contract >= 1200))

    points = {
        name: [
            Point(connections, *map(forwarded[name, connections].median, Point.TOLD))
            for connections in CONNECTIONS
            if len(forwarded[name, connections])
        ]
        for name in bench.ways
    }
    return rows, points


def _paced(runs: Runs) -> float:
    """Calls a second, had the router had its core for itself: what others took is not its fault."""
    return runs.median("rate") / runs.load().router


def _seconds(name: str, connections: int) -> int:
    if connections == COMPARED:
        return SLOW_COMPARED_SECONDS if name in _SLOW else COMPARED_SECONDS
    return SLOW_SECONDS if name in _SLOW else SECONDS
