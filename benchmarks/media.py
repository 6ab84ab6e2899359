"""`python benchmarks/media.py`: what images cost those who send none.

A router with an `external` model that sees, played by `load/provider.py`; provider, senders and
whoever measures are processes of their own. Small calls are made all the time; their 99th
percentile is taken without and with four clients who send JPEGs of 1.5 MB one after another. Then
maximal requests (two images of 8 MiB) are sent, and `/healthz` is asked every two milliseconds: its
longest answer is how long the router's loop was held up, at the most.
Prints one table; exits 1 when a goal is missed.
"""

from __future__ import annotations

import base64
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from load.processes import HERE, started
from PIL import Image
from table import Row, print_rows

SECONDS = 6.0
RATE = 100
SENDERS = 4
JPEG_BYTES = 1_500_000
P99_GOAL_MS = 20.0
HELD_GOAL_MS = 60.0
PATH = "/v1/model-operations"
PROVIDER_PORT, ROUTER_PORT = 9111, 9112
ANY_CORE = "0,1"


@contextmanager
def router(folder: Path) -> Iterator[str]:
    """A router in front of a provider that sees; yields its URL."""
    provider = f"http://127.0.0.1:{PROVIDER_PORT}"
    manifest = folder / "sees.yaml"
    manifest.write_text(
        "apiVersion: serving.pumas.dev/v1alpha1\nkind: ServedModel\nmetadata: {name: sees}\n"
        f"spec: {{runtime: external, endpoint: {{url: '{provider}', model: m}}}}\n"
    )
    url = f"http://127.0.0.1:{ROUTER_PORT}"
    scripted = [sys.executable, HERE / "provider.py", str(PROVIDER_PORT)]
    ours = [sys.executable, HERE / "ours.py", manifest, str(ROUTER_PORT)]
    with (
        started(ANY_CORE, scripted, f"{provider}/v1/models"),
        started(ANY_CORE, ours, f"{url}/readyz"),
    ):
        time.sleep(2)
        yield url


def operation(content: list[dict[str, str]]) -> bytes:
    """A question with these parts."""
    return json.dumps(
        {
            "contract_version": 1,
            "request_id": "bench:1",
            "model": "sees",
            "capability": "chat_generation",
            "input": {"kind": "messages", "messages": [{"role": "user", "content": content}]},
            "output": "text",
        }
    ).encode()


def build_jpeg(size: int) -> bytes:
    """Noise of about so many bytes."""
    side, quality = 1400, 92
    while True:
        file = io.BytesIO()
        Image.frombytes("RGB", (side, side), os.urandom(side * side * 3)).save(
            file, "JPEG", quality=quality
        )
        if abs(len(file.getvalue()) - size) < size * 0.06:
            return file.getvalue()
        side = int(side * (size / len(file.getvalue())) ** 0.5)


def build_png() -> bytes:
    """Noise in four channels, which no compression makes smaller: a little under 8 MiB."""
    file = io.BytesIO()
    Image.frombytes("RGBA", (1444, 1444), os.urandom(1444 * 1444 * 4)).save(file, "PNG")
    return file.getvalue()


def image_part(encoding: str, data: bytes) -> dict[str, str]:
    """As the contract has it."""
    text = base64.b64encode(data).decode()
    return {"kind": "image", "encoding": encoding, "data_base64": text}


def script(name: str, *arguments: object) -> subprocess.Popen[bytes]:
    """One of the generators in `load`, running."""
    return subprocess.Popen(
        [sys.executable, HERE / name, *map(str, arguments)], stdout=subprocess.PIPE
    )


def told_by(process: subprocess.Popen[bytes]) -> dict[str, float]:
    """What it printed when it was done."""
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r} failed")
    told: dict[str, float] = json.loads(out)
    return told


def longest_health(url: str, work: subprocess.Popen[bytes]) -> float:
    """The longest answer of `/healthz` in milliseconds until `work` is done."""
    longest = 0.0
    with httpx.Client() as client:
        while work.poll() is None:
            began = time.perf_counter()
            client.get(url + "/healthz")
            longest = max(longest, (time.perf_counter() - began) * 1000)
            time.sleep(0.002)
    if told_by(work)["answered"] < 1:
        raise RuntimeError("the largest request was not answered")
    return longest


def run(folder: Path) -> int:
    """Measure and print; the exit status."""
    files = {name: folder / name for name in ("small", "jpeg", "largest")}
    files["small"].write_bytes(operation([{"kind": "text", "text": "hello"}]))
    question = {"kind": "text", "text": "?"}
    jpeg = image_part("jpeg", build_jpeg(JPEG_BYTES))
    files["jpeg"].write_bytes(operation([question, jpeg]))
    png = image_part("png", build_png())
    files["largest"].write_bytes(operation([question, png, png]))
    with router(folder) as url:
        steady = (url, PATH, files["small"], RATE, SECONDS)
        told_by(script("steady.py", *steady))
        added: list[float] = []
        for _ in range(3):
            alone = told_by(script("steady.py", *steady))
            senders = script("images.py", url, PATH, files["jpeg"], SENDERS, SECONDS + 2)
            time.sleep(1)
            crowded = told_by(script("steady.py", *steady))
            told_by(senders)
            if alone["failed"] or crowded["failed"]:
                raise RuntimeError("small calls failed")
            added.append(crowded["p99_ms"] - alone["p99_ms"])
        held = []
        for _ in range(5):
            sender = script("images.py", url, PATH, files["largest"], 1, 0.5)
            held.append(longest_health(url, sender))
    p99, longest = statistics.median(added), statistics.median(held)
    return print_rows(
        [
            Row(
                f"beside {SENDERS} senders of JPEGs, others' p99",
                f"{p99:+.1f} ms",
                f"+{P99_GOAL_MS:g} ms",
                p99 <= P99_GOAL_MS,
            ),
            Row(
                "longest /healthz beside a request of 16 MiB",
                f"{longest:.1f} ms",
                f"{HELD_GOAL_MS:g} ms",
                longest <= HELD_GOAL_MS,
            ),
        ]
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        sys.exit(run(Path(name)))
