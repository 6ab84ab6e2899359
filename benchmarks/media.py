"""`python benchmarks/media.py`: what images cost those who send none.

A router with an `external` model that sees, played by a small server. Small calls are made all the
time; their 99th percentile is taken without and with four clients who send JPEGs of 1.5 MB one
after another. Then maximal requests (two images of 8 MiB) are sent, and `/healthz` is asked every
two milliseconds: its longest answer is how long the router's loop was held up, at the most.
Prints one table; exits 1 when a goal is missed.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import web
from PIL import Image
from table import Row, print_rows

PUMAS = Path(sys.executable).with_name("pumas")
SECONDS = 8.0
SENDERS = 4
JPEG_BYTES = 1_500_000
P99_GOAL_MS = 20.0
HELD_GOAL_MS = 60.0

_MODELS = {
    "data": [
        {
            "id": "sees",
            "owned_by": "llamacpp",
            "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
        }
    ]
}
_STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


async def _models(request: web.Request) -> web.Response:
    return web.json_response(_MODELS)


async def _chat(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=_STREAM, content_type="text/event-stream")


@asynccontextmanager
async def engine() -> AsyncIterator[int]:
    """A server that sees nothing and answers at once; yields its port."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/v1/chat/completions", _chat)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def write_manifest(folder: Path, engine_port: int) -> Path:
    """The model that the server plays."""
    manifest = folder / "sees.yaml"
    manifest.write_text(
        "apiVersion: serving.pumas.dev/v1alpha1\nkind: ServedModel\nmetadata: {name: sees}\n"
        f"spec: {{runtime: external, endpoint: {{url: 'http://127.0.0.1:{engine_port}'}}}}\n"
    )
    return manifest


@asynccontextmanager
async def router(engine_port: int) -> AsyncIterator[str]:
    """`pumas serve` in front of it; yields its URL."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = write_manifest(Path(folder), engine_port)
        process = await asyncio.create_subprocess_exec(
            *(PUMAS, "serve", manifest, "--port", "0", "--data", Path(folder, "data")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        try:
            first = (await process.stdout.readline()).decode()
            yield first.split()[3]
        finally:
            process.terminate()
            await process.wait()


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


async def ask(client: aiohttp.ClientSession, url: str, body: bytes) -> float:
    """Milliseconds of one call; raises when it is not answered."""
    began = time.perf_counter()
    async with client.post(url + "/v1/model-operations", data=body) as answer:
        told = await answer.read()
    if answer.status != 200:
        raise RuntimeError(told.decode())
    return (time.perf_counter() - began) * 1000


async def small_calls(client: aiohttp.ClientSession, url: str) -> float:
    """Their 99th percentile in milliseconds, one each 10 ms."""
    body = operation([{"kind": "text", "text": "hello"}])
    calls: list[asyncio.Task[float]] = []
    for _ in range(int(SECONDS / 0.01)):
        calls.append(asyncio.create_task(ask(client, url, body)))
        await asyncio.sleep(0.01)
    return statistics.quantiles(await asyncio.gather(*calls), n=100)[98]


async def beside(work: Callable[[], Awaitable[object]], measure: Awaitable[float]) -> float:
    """What is measured while `work` is done again and again."""

    async def again() -> None:
        while True:
            try:
                await work()
            except RuntimeError as refused:
                if "media checks" not in str(refused):
                    raise
                await asyncio.sleep(0.01)

    senders = [asyncio.create_task(again()) for _ in range(SENDERS)]
    try:
        return await measure
    finally:
        for sender in senders:
            sender.cancel()
        done = await asyncio.gather(*senders, return_exceptions=True)
        for error in done:
            if isinstance(error, Exception):
                raise error


async def longest_health(
    client: aiohttp.ClientSession, url: str, work: asyncio.Task[object]
) -> float:
    """The longest answer of `/healthz` in milliseconds until `work` is done."""
    longest = 0.0
    while not work.done():
        began = time.perf_counter()
        async with client.get(url + "/healthz") as answer:
            await answer.read()
        longest = max(longest, (time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.002)
    work.result()
    return longest


async def run() -> int:
    """Measure and print; the exit status."""
    jpeg = operation([{"kind": "text", "text": "?"}, image_part("jpeg", build_jpeg(JPEG_BYTES))])
    png = image_part("png", build_png())
    largest = operation([{"kind": "text", "text": "?"}, png, png])
    async with (
        engine() as port,
        router(port) as url,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client,
    ):
        await asyncio.sleep(2)
        await small_calls(client, url)
        added: list[float] = []
        for _ in range(3):
            alone = await small_calls(client, url)
            crowded = await beside(lambda: ask(client, url, jpeg), small_calls(client, url))
            added.append(crowded - alone)
        held: list[float] = []
        for _ in range(5):
            one = asyncio.create_task(ask(client, url, largest))
            held.append(await longest_health(client, url, one))
    rows = [
        Row(
            f"beside {SENDERS} senders of JPEGs, others' p99",
            f"{statistics.median(added):+.1f} ms",
            f"+{P99_GOAL_MS:g} ms",
            statistics.median(added) <= P99_GOAL_MS,
        ),
        Row(
            "longest /healthz beside a request of 16 MiB",
            f"{statistics.median(held):.1f} ms",
            f"{HELD_GOAL_MS:g} ms",
            statistics.median(held) <= HELD_GOAL_MS,
        ),
    ]
    return print_rows(rows)


if __name__ == "__main__":
    sys.exit(asyncio.run(run()))
