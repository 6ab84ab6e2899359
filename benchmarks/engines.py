"""`python benchmarks/engines.py`: llama-cpp-python as the engine, beside the default one.

Both are asked over HTTP as our supervisor starts them, by turns: machines are noisy, ratios less
so. Needs `make models` and the extra `llama-cpp-python`. Prints one table without goals (ADR 18).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
from table import Row, print_rows

from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import EngineMode, Runtime, Variable
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.engine import find_engine
from pumas_server.worker.launch import LaunchSettings, build_engine_command

MODEL = Path(__file__).resolve().parents[1] / ".cache/models/gemma-3-270m-q4_k_m.gguf"
ENGINES = {"ours": "llama-cpp-python", "default": ""}
TOKENS = 32
CALLERS = (1, 4, 8)
PROMPT = "The river runs past the old mill and the stone bridge. " * 9
PORT = 18_099
FACTS = FileFacts(architecture="gemma3", context_tokens=32_768)


@contextmanager
def engine(
    name: str, model: Path, key: Path, threads: int
) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    """An engine as the supervisor starts it, healthy, and a client of it."""
    spec = WorkerSpec(alias="m", runtime=Runtime.LLAMA_CPP, source=Source(path=str(model)))
    program = find_engine({**os.environ, Variable.ENGINE: name}, Runtime.LLAMA_CPP)
    place = LaunchSettings("127.0.0.1", PORT, key, threads)
    command = build_engine_command(program, spec, EngineMode.GENERATE, FACTS, place)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    # A connection for each call: llama-server ends those that are kept, at times of its own.
    headers = {"Authorization": f"Bearer {key.read_text()}", "Connection": "close"}
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{PORT}", timeout=600, headers=headers
        ) as client:
            while not healthy(client):
                if process.poll() is not None:
                    raise RuntimeError(f"the engine {name or 'by default'} ended")
                time.sleep(0.02)
            yield client, psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def healthy(client: httpx.Client) -> bool:
    """Whether it has loaded its model."""
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def stream(client: httpx.Client, prompt: str, tokens: int) -> tuple[float, int]:
    """Seconds to the first text, and how many events had text."""
    body = {"prompt": prompt, "max_tokens": tokens, "stream": True, "temperature": 0}
    began, first, count = time.perf_counter(), 0.0, 0
    with client.stream("POST", "/v1/completions", json=body) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {") and json.loads(line[6:])["choices"][0]["text"]:
                first = first or time.perf_counter() - began
                count += 1
    return first, count


def together(client: httpx.Client, callers: int) -> tuple[float, float]:
    """Tokens a second of all callers, and the longest time to a first token."""
    told: list[tuple[float, int]] = []

    def ask(number: int) -> None:
        told.append(stream(client, f"Caller {number} says: {PROMPT}", TOKENS))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(callers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    return sum(count for _, count in told) / seconds, max(first for first, _ in told)


def measure(name: str, model: Path, key: Path, threads: int) -> dict[str, float]:
    """All figures of one start of an engine."""
    began = time.perf_counter()
    figures: dict[str, float] = {}
    with engine(name, model, key, threads) as (client, process):
        stream(client, "Hello", 1)
        figures["start to first token, s"] = time.perf_counter() - began
        for callers in CALLERS:
            speed, first = together(client, callers)
            figures[f"tokens/s, {callers} at once"] = speed
            figures[f"longest wait for a first token, {callers} at once, s"] = first
            told = f"{name or 'the default engine'}, {callers} at once: {speed:.1f} tokens/s"
            print(told, file=sys.stderr, flush=True)
        figures["RSS, MiB"] = process.memory_info().rss / 2**20
    return figures


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--rounds", type=int, default=3)
    # The threads of an engine wait for each other: on a busy machine one is faster than two.
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    rounds: dict[str, list[dict[str, float]]] = {side: [] for side in ENGINES}
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        key.write_text("measuring")
        for _ in range(asked.rounds):
            for side, name in ENGINES.items():
                rounds[side].append(measure(name, asked.model, key, asked.threads))
    rows = []
    for what in rounds["ours"][0]:
        pairs = zip(rounds["ours"], rounds["default"], strict=True)
        ratio = statistics.median(ours[what] / default[what] for ours, default in pairs)
        ours, default = (
            statistics.median(figures[what] for figures in rounds[side]) for side in ENGINES
        )
        rows.append(Row(what, f"{ours:.2f} : {default:.2f} = {ratio:.2f}", "", True))
    return print_rows(rows)


if __name__ == "__main__":
    sys.exit(main())
