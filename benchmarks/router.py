"""`python benchmarks/router.py`: the router beside a bare forwarder, the provider, and LiteLLM.

Every way leads to one scripted provider (`load/provider.py`). Generator and provider share one
core, the way that is measured has the other; rounds are interleaved and the median is taken. A run
in which the provider is at more than 80 % of its core is void: it would be the provider's figure.
`wrk` makes the finite calls. LiteLLM is installed into an environment of its own, at the first run.
Prints one table; exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
from load.processes import (
    GENERATOR_CORE,
    HERE,
    ROUTER_CORE,
    Way,
    pinned,
    processor_seconds,
    started,
)
from load.provider import build_embeddings
from table import Row, print_rows

ROOT = Path(__file__).parents[1]
LITELLM = "litellm[proxy]==1.108.0"
LITELLM_HOME = ROOT / ".cache" / "litellm"
CONNECTIONS = 32
ROUNDS = 5
SECONDS = 2
#: Above this share of its core a provider or generator is what is measured.
BUSY = 0.8
PROVIDER_PORT, FORWARDER_PORT, OURS_PORT, LITELLM_PORT = 9101, 9102, 9103, 9104

Told = TypeVar("Told")

CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
OPERATION = json.dumps(
    {
        "contract_version": 1,
        "request_id": "load:1",
        "model": "m",
        "capability": "chat_generation",
        "input": {"kind": "messages", "messages": [{"role": "user", "content": "hi"}]},
        "output": "text",
    }
).encode()
EMBEDDINGS = json.dumps(
    {
        "contract_version": 1,
        "request_id": "load:1",
        "model": "e",
        "input": {"kind": "text_batch", "texts": ["a text"] * 128},
        "output": "embeddings_float32",
    }
).encode()

_MANIFEST = """\
apiVersion: serving.pumas.dev/v1alpha1
kind: ServedModel
metadata: {{name: m}}
spec: {{runtime: external, endpoint: {{url: '{url}'}}}}
---
apiVersion: serving.pumas.dev/v1alpha1
kind: ServedModel
metadata: {{name: e}}
spec: {{runtime: external, task: feature-extraction, endpoint: {{url: '{url}', model: m}}}}
"""
_LITELLM_CONFIG = """\
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: '{url}/v1', api_key: none}}
"""


@contextmanager
def all_ways(folder: Path, *, with_litellm: bool) -> Iterator[dict[str, Way]]:
    """The provider and every router in front of it, each started and waited for."""
    provider = f"http://127.0.0.1:{PROVIDER_PORT}"
    with ExitStack() as running:
        process = running.enter_context(
            started(
                GENERATOR_CORE,
                [sys.executable, HERE / "provider.py", str(PROVIDER_PORT)],
                f"{provider}/v1/models",
            )
        )
        ways = {"direct": Way("direct", provider, process)}
        url = f"http://127.0.0.1:{FORWARDER_PORT}"
        forwarder = [
            *(sys.executable, "-m", "uvicorn", "forwarder:app", "--app-dir", HERE),
            *("--port", str(FORWARDER_PORT), "--log-level", "warning", "--no-access-log"),
        ]
        process = running.enter_context(
            started(ROUTER_CORE, forwarder, f"{url}/v1/models", {"PROVIDER": provider})
        )
        ways["bare"] = Way("bare", url, process)
        manifest = folder / "models.yaml"
        manifest.write_text(_MANIFEST.format(url=provider))
        url = f"http://127.0.0.1:{OURS_PORT}"
        ours = [sys.executable, HERE / "ours.py", manifest, str(OURS_PORT)]
        process = running.enter_context(started(ROUTER_CORE, ours, f"{url}/readyz"))
        ways["ours"] = Way("ours", url, process)
        if with_litellm:
            config = folder / "litellm.yaml"
            config.write_text(_LITELLM_CONFIG.format(url=provider))
            url = f"http://127.0.0.1:{LITELLM_PORT}"
            command = [litellm(), "--config", config, "--port", str(LITELLM_PORT)]
            process = running.enter_context(
                started(ROUTER_CORE, command, f"{url}/health/liveliness")
            )
            ways["LiteLLM"] = Way("LiteLLM", url, process)
        time.sleep(3)
        yield ways


def litellm() -> Path:
    """Its command, in an environment of its own."""
    program = LITELLM_HOME / "bin" / "litellm"
    if not program.exists():
        venv.create(LITELLM_HOME, with_pip=True)
        pip = [LITELLM_HOME / "bin" / "pip", "install", "--quiet", LITELLM]
        subprocess.run(pip, check=True)
    return program


def wrk(way: Way, path: str, body: bytes, folder: Path) -> float:
    """Finite calls a second at 32 connections."""
    script = folder / "post.lua"
    quoted = body.decode().replace("\\", "\\\\").replace("'", "\\'")
    script.write_text(
        f"wrk.method = 'POST'\nwrk.body = '{quoted}'\n"
        "wrk.headers['content-type'] = 'application/json'\n"
    )
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", script, way.url + path]
    out = subprocess.run(
        pinned(GENERATOR_CORE, command), capture_output=True, text=True, check=True
    ).stdout
    if "Non-2xx" in out:
        raise RuntimeError(f"{way.name} refused calls of {path}: {out}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", out)
    assert found is not None, out
    return float(found[1])


def script(name: str, *arguments: object) -> dict[str, float]:
    """What one of the generators in `load` prints."""
    command = [sys.executable, HERE / name, *map(str, arguments)]
    done = subprocess.run(
        pinned(GENERATOR_CORE, command), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    told: dict[str, float] = json.loads(done.stdout)
    return told


class Bench:
    """One run of all rows."""

    def __init__(self, ways: dict[str, Way], folder: Path, rounds: int) -> None:
        self._ways = ways
        self._folder = folder
        self._rounds = rounds
        self._provider = ways["direct"].process
        self.void: list[str] = []

    def rows(self) -> list[Row]:
        """Every row that `make bench` fills."""
        return [
            *self.finite(),
            *self.added(),
            *self.streams("passthrough", "/v1/chat/completions", 1000, 0.6),
            *self.streams("contract", "/v1/model-operations", 500, 0.9),
            *self.embeddings(),
        ]

    def finite(self) -> list[Row]:
        """Throughput of finite calls, forwarded and typed."""
        forwarded: dict[str, list[float]] = {name: [] for name in self._ways}
        typed: list[float] = []
        for _ in range(self._rounds):
            for name, way in self._ways.items():
                rate = self._watched(
                    name, lambda way=way: wrk(way, "/v1/chat/completions", CHAT, self._folder)
                )
                forwarded[name].append(rate)
            ours = self._ways["ours"]
            typed.append(wrk(ours, "/v1/model-operations", OPERATION, self._folder))
        rate = {name: statistics.median(rates) for name, rates in forwarded.items()}
        told = ", ".join(f"{name} {value:,.0f}/s" for name, value in rate.items())
        share = rate["ours"] / rate["bare"]
        rows = [
            Row("finite calls, forwarded", told, "", True),
            Row("  ours : bare forwarder", f"{share:.2f}", "0.6", share >= 0.6),
        ]
        if "LiteLLM" in rate:
            times = rate["ours"] / rate["LiteLLM"]
            rows.append(Row("  ours : LiteLLM", f"{times:.0f}", "50", times >= 50))
        contract = statistics.median(typed)
        rows.append(
            Row("contract operations, finite", f"{contract:,.0f}/s", "1200/s", contract >= 1200)
        )
        return rows

    def added(self) -> list[Row]:
        """What the router adds to a call, at a steady rate."""
        files = {"/v1/chat/completions": CHAT, "/v1/model-operations": OPERATION}
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(self._rounds):
            for name in ("direct", "ours"):
                for path, body in files.items():
                    if name == "direct" and path == "/v1/model-operations":
                        continue
                    file = self._folder / "body.json"
                    file.write_bytes(body)
                    rate = 500 if path.endswith("completions") else 300
                    told = script("steady.py", self._ways[name].url, path, file, rate, SECONDS)
                    if told["failed"]:
                        raise RuntimeError(f"{told['failed']} calls of {name} {path} failed")
                    found.setdefault((name, path), []).append((told["p50_ms"], told["p99_ms"]))
        p50 = {key: statistics.median(p for p, _ in values) for key, values in found.items()}
        p99 = {key: statistics.median(p for _, p in values) for key, values in found.items()}
        direct, forwarded = ("direct", "/v1/chat/completions"), ("ours", "/v1/chat/completions")
        typed = ("ours", "/v1/model-operations")
        rows = []
        for what, added, goal in (
            ("forwarded, added p50 at 500/s", p50[forwarded] - p50[direct], 0.5),
            ("forwarded, added p99 at 500/s", p99[forwarded] - p99[direct], 3.0),
            ("contract, added p50 at 300/s", p50[typed] - p50[direct], 1.0),
        ):
            rows.append(Row(what, f"{added:.2f} ms", f"{goal:g} ms", added <= goal))
        return rows

    def streams(self, what: str, path: str, count: int, core: float) -> list[Row]:
        """Many streams of ten events a second, for some seconds."""
        way, events = self._ways["ours"], 60
        assert way.process is not None
        before = processor_seconds(way.process)
        told = self._watched(
            f"{count} {what} streams",
            lambda: script("streams.py", way.url, path, "m", count, events, 10),
        )
        used = (processor_seconds(way.process) - before) / told["seconds"]
        lost = count * events - told["events"] + count - told["whole"]
        return [
            Row(f"{what} streams, {count} x 10/s: lost", f"{lost:.0f}", "0", lost == 0),
            Row("  on their way, p99", f"{told['p99_ms']:.1f} ms", "100 ms", told["p99_ms"] <= 100),
            Row("  cores used", f"{used:.2f}", f"{core:g}", used <= core),
        ]

    def embeddings(self) -> list[Row]:
        """A large typed answer beside reading and writing its JSON once."""
        raw = build_embeddings()
        plain, ours = [], []
        way = self._ways["ours"]
        file = self._folder / "body.json"
        file.write_bytes(EMBEDDINGS)
        for _ in range(self._rounds):
            began = time.perf_counter()
            json.dumps(json.loads(raw)).encode()
            plain.append((time.perf_counter() - began) * 1000)
            ours.append(script("steady.py", way.url, "/v1/model-operations", file, 4, 2)["p50_ms"])
        times = statistics.median(ours) / statistics.median(plain)
        return [Row("embeddings 128 x 1,024 : loads + dumps", f"{times:.2f}", "1.5", times <= 1.5)]

    def _watched(self, what: str, work: Callable[[], Told]) -> Told:
        """What `work` finds; void when the provider's core was not enough for it."""
        assert self._provider is not None
        began, before = time.monotonic(), processor_seconds(self._provider)
        found = work()
        share = (processor_seconds(self._provider) - before) / (time.monotonic() - began)
        if share > BUSY and what != "direct":
            self.void.append(f"{what}: the provider used {share:.0%} of its core")
        return found


def main() -> int:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    arguments.add_argument("--without-litellm", action="store_true")
    asked = arguments.parse_args()
    if psutil.cpu_count() == 1:
        print("two cores are needed")
        return 1
    with (
        tempfile.TemporaryDirectory() as folder,
        all_ways(Path(folder), with_litellm=not asked.without_litellm) as ways,
    ):
        bench = Bench(ways, Path(folder), asked.rounds)
        status = print_rows(bench.rows())
    for reason in bench.void:
        print(f"void: {reason}")
    return 1 if bench.void else status


if __name__ == "__main__":
    sys.exit(main())
