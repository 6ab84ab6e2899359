"""Calls at a steady rate, each when it is due, whatever became of those before it.

    python steady.py URL PATH BODY_FILE RATE SECONDS

Prints one JSON object: percentiles of the time of a call in milliseconds, how many failed, how
long it took, and the seconds of processor that this process used meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import aiohttp
import uvloop


async def run(url: str, path: str, body: bytes, rate: float, seconds: float) -> None:
    """Make the calls."""
    took: list[float] = []
    failed = 0

    async def call() -> None:
        nonlocal failed
        began = time.perf_counter()
        try:
            async with client.post(url + path, data=body) as answer:
                await answer.read()
                failed += answer.status != 200
        except (aiohttp.ClientError, TimeoutError):
            failed += 1
        took.append(time.perf_counter() - began)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        began, used = time.perf_counter(), time.process_time()
        calls = []
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            calls.append(asyncio.create_task(call()))
        await asyncio.gather(*calls)
        seconds, used = time.perf_counter() - began, time.process_time() - used
    took.sort()
    print(
        json.dumps(
            {
                "p50_ms": took[len(took) // 2] * 1000,
                "p99_ms": took[int(len(took) * 0.99)] * 1000,
                "failed": failed,
                "seconds": seconds,
                "processor_seconds": used,
            }
        )
    )


if __name__ == "__main__":
    url, path, file, rate, seconds = sys.argv[1:]
    uvloop.run(run(url, path, Path(file).read_bytes(), float(rate), float(seconds)))
