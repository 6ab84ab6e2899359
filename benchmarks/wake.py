"""`make bench-models`: how soon a model at zero answers, and how many callers at once fare.

A tiny model in `pumas serve`, so that what is measured is ours: process, engine start and warm-up.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aiohttp
import psutil
from serve import ROOT, ROUNDS, serving
from table import Row, print_rows

CALLERS = 200
GOAL_SECONDS = 3.0
_CHAT = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 8,
    "temperature": 0,
}
_MANIFEST = """\
apiVersion: serving.pumas.dev/v1alpha1
kind: ServedModel
metadata: {{name: tiny}}
spec: {{source: {{path: {path}}}, replicas: 0, activation: {{onDemand: true}}}}
"""


async def until_asleep(client: aiohttp.ClientSession) -> None:
    """Until it is at zero, and its file has told what it is for."""
    for _ in range(1200):
        async with client.get("/lmsp/v1/models/tiny") as answer:
            found = await answer.json()
        if (found.get("status"), found.get("capabilities", {}).get("chat")) == ("installed", True):
            return
        await asyncio.sleep(0.05)
    raise RuntimeError(f"the model does not come to rest: {found}")


async def unload(client: aiohttp.ClientSession) -> None:
    """Put it to rest."""
    async with client.post("/lmsp/v1/models/tiny/unload") as answer:
        assert answer.status == 200, await answer.text()
    await until_asleep(client)


async def first_token_seconds(client: aiohttp.ClientSession) -> float:
    """From a call of the sleeping model to the first piece of its text."""
    began = time.perf_counter()
    async with client.post("/v1/chat/completions", json=_CHAT | {"stream": True}) as answer:
        assert answer.status == 200, await answer.text()
        async for line in answer.content:
            event = line.removeprefix(b"data: ").strip()
            if event.startswith(b"{") and json.loads(event)["choices"][0]["delta"].get("content"):
                return time.perf_counter() - began
    raise RuntimeError("the model said nothing")


def engines(process: subprocess.Popen[str]) -> set[int]:
    """Engine processes that run now."""
    found = set()
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if "--api-key-file" in child.cmdline():
                found.add(child.pid)
        except psutil.Error:
            continue
    return found


async def burst(
    client: aiohttp.ClientSession, process: subprocess.Popen[str]
) -> tuple[Counter[str], int]:
    """How each caller fared, and how many engines were started meanwhile."""

    async def call() -> str:
        async with client.post("/v1/chat/completions", json=_CHAT) as answer:
            body = await answer.json()
        return "answered" if answer.status == 200 else f"{answer.status} {body['error']['message']}"

    seen: set[int] = set()
    callers = asyncio.gather(*(call() for _ in range(CALLERS)))
    while not callers.done():
        seen |= await asyncio.to_thread(engines, process)
        await asyncio.sleep(0.05)
    return Counter(callers.result()), len(seen)


async def measure(process: subprocess.Popen[str], url: str) -> list[Row]:
    """All rows."""
    rows = []
    connections = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connections) as client:
        await until_asleep(client)
        times = []
        for _ in range(ROUNDS):
            times.append(await first_token_seconds(client))
            await unload(client)
        middle = statistics.median(times)
        rows.append(
            Row(
                "tiny model at zero: call to first token",
                f"{middle:.2f} s (worst {max(times):.2f})",
                f"<= {GOAL_SECONDS:g} s",
                middle <= GOAL_SECONDS,
            )
        )
        fared, starts = await burst(client, process)
        rows.append(
            Row(
                f"{CALLERS} callers of it at once: engines started", f"{starts}", "= 1", starts == 1
            )
        )
        # A pod's limit is stated in the refusal; whatever else ends a call is nobody's promise.
        answered = fared.pop("answered", 0)
        limits = [re.fullmatch(r"503 .*\ball (\d+) calls\b.*", told) for told in fared]
        bound = max((int(limit[1]) for limit in limits if limit), default=CALLERS)
        rows += [
            Row(
                f"  answered: the pod admits {bound} at once",
                *(f"{answered}", f">= {bound}", answered >= bound),
            ),
            Row(
                "  refused, and told that bound",
                *(f"{fared.total()}", f"= {CALLERS - answered}"),
                all(limits) and answered + fared.total() == CALLERS,
            ),
        ]
        for told, count in fared.items():
            rows.append(Row(f"  {count} times", told, "", True))
    return rows


def measure_wake() -> list[Row]:
    """The rows, with a `pumas serve` of their own."""
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        subprocess.run([sys.executable, ROOT / "tests/support/tiny_models.py", models], check=True)
        manifest = Path(folder) / "tiny.yaml"
        manifest.write_text(_MANIFEST.format(path=models / "tiny-chat.gguf"))
        with serving(manifest, Path(folder) / "data") as (process, _):
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"http://\S+", line):
                    return asyncio.run(measure(process, found.group()))
    raise RuntimeError("pumas serve does not serve")


def main() -> int:
    """Print the rows."""
    return print_rows(measure_wake())


if __name__ == "__main__":
    sys.exit(main())
