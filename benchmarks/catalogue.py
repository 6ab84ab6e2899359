"""`make bench-models`: the catalogue of a thousand models, asked for 200 times a second.

The router runs in a process on one core, whoever asks it on another. Requests are sent at their
times whether or not earlier ones were answered, and one that waits for a connection is late.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial

import psutil
from table import Row, print_rows

MODELS = 1000
RATE = 200
SECONDS = 10
CONNECTIONS = 16
CHANGES = 15
PATH = b"/lmsp/v1/models"


# The router: a process that changes one model for each line that it reads.


def model_body(number: int, version: int) -> dict[str, object]:
    """A model as the Kubernetes API gives it; its version is in what it is called."""
    name = f"org/a-model-with-a-name-of-usual-length-{number:04}:q4_k_m"
    aliases = [f"{name}-{way}" for way in ("instruct", "latest", "default", "small", "old")]
    title = f"A model with a name of usual length, number {number}, version {version}"
    return {
        "metadata": {"name": f"m{number}", "uid": f"uid-{number}", "resourceVersion": "1"},
        "spec": {
            "alias": name,
            "replicas": 0,
            "source": {"http": {"url": f"https://files.example/{number}.gguf"}},
            "activation": {"onDemand": True},
            "catalogue": {"displayName": title, "aliases": aliases, "family": "family"},
        },
        "status": {
            "observedGeneration": 1,
            "loadState": "unloaded",
            "specHash": "hash",
            "file": {"architecture": "llama", "digest": "sha256:" + f"{number:064x}"},
            "runtime": {
                "mode": "generate",
                "contextTokens": 4096,
                "inputModalities": ["text"],
                "outputModalities": ["text"],
                "device": "gpu 24/36",
            },
        },
    }


async def serve_models() -> None:
    """Print the port once all are listed, then after each change how many were rendered again."""
    from pumas_crds.served_model import ServedModel
    from pumas_server.router.app import Router
    from pumas_server.router.catalog import Catalog
    from pumas_server.router.listener import listen
    from pumas_server.router.lmsp import catalogue
    from pumas_server.router.server import serving
    from pumas_server.router.settings import RouterSettings
    from pumas_server.router.source import ModelRecord

    rendered = 0
    make_entry = catalogue.Entry.__init__

    def count(entry: catalogue.Entry, record: ModelRecord, pages: str) -> None:
        nonlocal rendered
        rendered += 1
        make_entry(entry, record, pages)

    setattr(catalogue.Entry, "__init__", count)  # noqa: B010
    changed = asyncio.Event()

    def lists(newest: ModelRecord, _: Catalog) -> bool:
        return newest in router.workers.records[:1]

    def record(number: int, version: int) -> ModelRecord:
        return ModelRecord(ServedModel.model_validate(model_body(number, version)), "hash", ())

    class Source:
        """The models as they are now."""

        records = tuple(record(number, 0) for number in range(MODELS))

        async def watch(self) -> AsyncIterator[tuple[ModelRecord, ...]]:
            while True:
                changed.clear()
                yield self.records
                await changed.wait()

    source, listener = Source(), listen("127.0.0.1", 0)
    router = Router(source, RouterSettings(propagation_seconds=0))
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    async with serving(router, listener):
        await router.workers.until(lambda catalog: len(catalog.rows) == MODELS)
        print(listener.getsockname()[1], flush=True)
        version, known = 0, 0
        while await lines.readline():
            print(rendered - known, flush=True)
            version, known = version + 1, rendered
            newest = record(0, version)
            source.records = (newest, *source.records[1:])
            changed.set()
            await router.workers.until(partial(lists, newest))
            print("changed", flush=True)


@contextmanager
def router_process() -> Iterator[subprocess.Popen[str]]:
    """The router on the first core, this process on another where there is one."""
    cores = sorted(psutil.Process().cpu_affinity() or [0])
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    psutil.Process(process.pid).cpu_affinity(cores[:1])
    psutil.Process().cpu_affinity(cores[1:] or cores)
    try:
        yield process
    finally:
        psutil.Process().cpu_affinity(cores)
        process.kill()
        process.wait()


# Who asks: bare sockets, since a client library would take longer than the router does.


class Caller(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.done: asyncio.Future[bytes] | None = None
        self._head = b""
        self._left = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Kept for all requests."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Reads the head and counts the body."""
        if self._left < 0:
            self._head += data
            head, ended, body = self._head.partition(b"\r\n\r\n")
            if not ended:
                return
            self._head, data = head.lower(), body
            self._left = int(_field(self._head, b"content-length") or 0)
        self._left -= len(data)
        if self._left == 0 and self.done is not None:
            head, self._head, self._left = self._head, b"", -1
            self.done.set_result(head)

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits hears of it."""
        if self.done is not None and not self.done.done():
            self.done.set_exception(error or ConnectionError("the router closed the connection"))

    async def ask(self, etag: bytes = b"", path: bytes = PATH) -> bytes:
        """GET it, by default the list; the head in small letters, once the body is there."""
        assert self.transport is not None
        condition = b"if-none-match: " + etag + b"\r\n" if etag else b""
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(b"GET " + path + b" HTTP/1.1\r\nhost: x\r\n" + condition + b"\r\n")
        return await self.done


def _field(head: bytes, name: bytes) -> bytes:
    _, found, rest = head.partition(b"\r\n" + name + b": ")
    return rest.partition(b"\r\n")[0] if found else b""


async def call(port: int) -> Caller:
    """A connection."""
    _, caller = await asyncio.get_running_loop().create_connection(Caller, "127.0.0.1", port)
    return caller


async def times_at_rate(port: int, path: bytes, etag: bytes, status: bytes) -> list[float]:
    """Milliseconds of each request, in order. Of this process's own lateness nothing counts."""
    free: asyncio.Queue[Caller] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await call(port))
    found: list[float] = []

    async def one(began: float) -> None:
        caller = await free.get()
        head = await caller.ask(etag, path)
        found.append((time.perf_counter() - began) * 1000)
        assert head.startswith(b"http/1.1 " + status), head
        free.put_nowait(caller)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(RATE * SECONDS):
            await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            group.create_task(one(time.perf_counter()))
    while not free.empty():
        transport = free.get_nowait().transport
        assert transport is not None
        transport.close()
    return sorted(found)


async def measure(process: subprocess.Popen[str]) -> list[Row]:
    """All rows."""
    assert process.stdin is not None and process.stdout is not None
    port, router = int(process.stdout.readline()), psutil.Process(process.pid)
    caller = await call(port)
    first = await timed(caller)
    head = await caller.ask()
    # The tag's letters are digits of a hash: small ones as they are.
    etag, size = _field(head, b"etag").replace(b"w/", b"W/"), int(_field(head, b"content-length"))
    many = f"{MODELS:,} models"
    rows = [Row(f"{many}, {size / 1e6:.2f} MB: the very first GET", f"{first:.1f} ms", "", True)]
    for what, path, tag, status, goal in (
        (f"{many}: list, p99 at {RATE}/s", PATH, b"", b"200", 15.0),
        (f"{many}: 304, p99 at {RATE}/s", PATH, etag, b"304", 2.0),
        # What this machine makes of an answer that costs nothing.
        (f"  /healthz beside it, p99 at {RATE}/s", b"/healthz", b"", b"200", None),
    ):
        before = sum(router.cpu_times()[:2])
        times = await times_at_rate(port, path, tag, status)
        cpu = (sum(router.cpu_times()[:2]) - before) * 1000 / len(times)
        p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        figure = f"{p99:.2f} ms (p50 {p50:.2f}, CPU {cpu:.2f})"
        aim = "" if goal is None else f"<= {goal:g} ms"
        rows.append(Row(what, figure, aim, goal is None or p99 <= goal))
    process.stdin.write("change\n")
    assert process.stdout.readline().strip() == str(MODELS), "all were rendered once"
    taken, again = [], []
    for _ in range(CHANGES):
        assert process.stdout.readline() == "changed\n"
        taken.append(await timed(caller))
        new = _field(await caller.ask(), b"etag").replace(b"w/", b"W/")
        assert new != etag, "the change is listed"
        etag = new
        process.stdin.write("change\n")
        again.append(int(process.stdout.readline()))
    rows.append(
        Row(
            f"{many}: first GET after one changed",
            f"{statistics.median(taken):.1f} ms (worst {max(taken):.1f})",
            "",
            True,
        )
    )
    rows.append(Row(f"{many}: rendered again for it", f"{max(again)}", "= 1", set(again) == {1}))
    return rows


async def timed(caller: Caller) -> float:
    """Milliseconds of one GET."""
    began = time.perf_counter()
    await caller.ask()
    return (time.perf_counter() - began) * 1000


def measure_catalogue() -> list[Row]:
    """The rows, with a router of their own."""
    with router_process() as process:
        return asyncio.run(measure(process))


def main() -> int:
    """Print the rows."""
    return print_rows(measure_catalogue())


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        import uvloop

        uvloop.run(serve_models())
        os._exit(0)
    sys.exit(main())
