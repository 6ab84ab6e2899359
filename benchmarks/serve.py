"""`make bench-models`: first token of `pumas serve`, and its throughput beside the engine's.

Both sides of a ratio are measured in one run, interleaved, against the same engine process:
machines are noisy, ratios less so. Prints one table; exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import psutil
from table import Row, print_rows

PUMAS = Path(sys.executable).with_name("pumas")
ROOT = Path(__file__).parents[1]
STREAMS = 8
TOKENS = 64
ROUNDS = 5


@contextmanager
def serving(
    manifest: Path, data: Path, *more: str
) -> Iterator[tuple[subprocess.Popen[str], float]]:
    """A `pumas serve` process, and when it was started."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [PUMAS, "serve", manifest, "--port", "0", "--data", data, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process, began
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def first_token_seconds(manifest: Path, data: Path) -> float:
    """From starting the command to the first byte of the first answer."""
    with serving(manifest, data, "--prompt", "Hello", "--once") as (process, began):
        assert process.stdout is not None
        for line in process.stdout:
            if " goes on from: " in line:
                process.stdout.read(1)
                return time.perf_counter() - began
    raise RuntimeError("pumas serve gave no answer")


async def tokens_per_second(url: str, headers: dict[str, str], model: str) -> float:
    """Aggregate rate of all streams, on the completions route, events counted as they come."""
    async with aiohttp.ClientSession(headers=headers) as client:

        async def one(number: int) -> int:
            body = {
                "model": model,
                "prompt": f"Chapter {number}. It was",
                "max_tokens": TOKENS,
                "temperature": 0,
                "stream": True,
                "ignore_eos": True,
            }
            events = 0
            async with client.post(f"{url}/v1/completions", json=body) as answer:
                async for line in answer.content:
                    events += line.startswith(b"data: {")
            return events

        began = time.perf_counter()
        counts = await asyncio.gather(*(one(number) for number in range(STREAMS)))
        return sum(counts) / (time.perf_counter() - began)


def engine_of(process: subprocess.Popen[str]) -> tuple[str, dict[str, str]]:
    """URL and header of the engine process below `process`."""
    for child in psutil.Process(process.pid).children(recursive=True):
        command = child.cmdline()
        if "--api-key-file" in command:
            at = {flag: command[command.index(flag) + 1] for flag in ("--port", "--api-key-file")}
            key = Path(at["--api-key-file"]).read_text().strip()
            return f"http://127.0.0.1:{at['--port']}", {"Authorization": f"Bearer {key}"}
    raise RuntimeError("no engine process found")


def throughput(manifest: Path, data: Path, model: str) -> tuple[float, float, float]:
    """Medians of ours and the engine's, and the median of the rounds' ratios."""
    with serving(manifest, data) as (process, _):
        assert process.stdout is not None
        url = ""
        for line in process.stdout:
            found = re.search(r"http://\S+", line)
            url = url or (found.group() if found else "")
            if line.startswith(model) and "text_generation" in line:
                break
        engine, headers = engine_of(process)
        ours, direct = [], []
        for number in range(ROUNDS * 2):
            # Each side goes first in turn: what drifts meanwhile weighs on both alike.
            for side in ("direct", "ours") if number % 2 else ("ours", "direct"):
                if side == "ours":
                    ours.append(asyncio.run(tokens_per_second(url, {}, model)))
                else:
                    direct.append(asyncio.run(tokens_per_second(engine, headers, model)))
        ratios = [a / b for a, b in zip(ours, direct, strict=True)]
        return statistics.median(ours), statistics.median(direct), statistics.median(ratios)


def main() -> int:
    """Run all rows and print them."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="print JSON and no table")
    options = arguments.parse_args()
    gemma = ROOT / "crds/examples/local/gemma.yaml"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        data, models = Path(folder) / "data", Path(folder) / "models"
        subprocess.run([sys.executable, ROOT / "tests/support/tiny_models.py", models], check=True)
        tiny = Path(folder) / "tiny.yaml"
        tiny.write_text(
            "apiVersion: serving.pumas.dev/v1alpha1\nkind: ServedModel\nmetadata: {name: tiny}\n"
            f"spec: {{source: {{path: {models}/tiny-chat.gguf}}}}\n"
        )
        for name, manifest, goal in (("tiny model", tiny, 2.0), ("Gemma 3 270M", gemma, 5.0)):
            times = [first_token_seconds(manifest, data) for _ in range(ROUNDS)]
            middle = statistics.median(times)
            rows.append(
                Row(
                    f"first token, {name}",
                    f"{middle:.2f} s (best {min(times):.2f})",
                    f"<= {goal:g} s",
                    middle <= goal,
                )
            )
        ours, direct, ratio = throughput(gemma, data, "gemma-3-270m")
        rows.append(
            Row(
                f"tokens/s, {STREAMS} streams, router : engine",
                f"{ours:.0f} : {direct:.0f} = {ratio:.3f}",
                ">= 0.95",
                ratio >= 0.95,
            )
        )
    if options.json:
        print(json.dumps([vars(row) for row in rows]))
        return 0 if all(row.met for row in rows) else 1
    return print_rows(rows)


if __name__ == "__main__":
    sys.exit(main())
