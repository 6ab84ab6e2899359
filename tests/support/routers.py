"""The real router over real sockets, in the test's own loop, in front of given endpoints."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from yarl import URL

from pumas_crds.served_model import ServedModel
from pumas_server.router.app import Router
from pumas_server.router.catalog import Catalog
from pumas_server.router.listener import listen
from pumas_server.router.lmsp.load_control import LoadControl
from pumas_server.router.lmsp.request_records import RequestRecords
from pumas_server.router.server import serving
from pumas_server.router.settings import RouterSettings
from pumas_server.router.source import Endpoint, ModelRecord
from pumas_server.router.steering import NO_STEERING, Steering

TEST_SETTINGS = RouterSettings(propagation_seconds=0, drain_seconds=0.2, connect_seconds=2)


class FixedSource:
    """A ModelSource whose records a test sets."""

    def __init__(self, *records: ModelRecord) -> None:
        self._records = records
        self._changed = asyncio.Event()

    def put(self, *records: ModelRecord) -> None:
        self._records = records
        self._changed.set()

    async def watch(self) -> AsyncIterator[tuple[ModelRecord, ...]]:
        while True:
            self._changed.clear()
            yield self._records
            await self._changed.wait()


def external(
    url: str,
    alias: str = "llm",
    task: str | None = "text-generation",
    profile: str = "default",
    model: str | None = "served",
    **status: Any,
) -> ModelRecord:
    """A record of `runtime: external`."""
    spec: dict[str, Any] = {
        "alias": alias,
        "profile": profile,
        "runtime": "external",
        "endpoint": {"url": url, **({"model": model} if model else {})},
    }
    if task:
        spec["task"] = task
    name = alias.lower().replace("/", "-").replace("_", "-").replace(":", "-")
    served = ServedModel.model_validate(
        {
            "metadata": {"name": f"{name}-{profile}", "uid": f"{alias}@{profile}"},
            "spec": spec,
            "status": {"loadState": "loading", **status},
        }
    )
    return ModelRecord(served, "hash", (Endpoint("external", url, None, True),))


@dataclass
class RunningRouter:
    """A router and a client for it."""

    router: Router
    source: FixedSource
    client: aiohttp.ClientSession
    port: int

    async def operate(self, body: Any) -> tuple[int, Any]:
        """POST a model operation; status and decoded answer."""
        status, _, raw = await self.post("/v1/model-operations", body)
        return status, json.loads(raw)

    async def stream(self, body: Any) -> list[tuple[str, Any]]:
        """POST a streamed model operation; its records as (event, data)."""
        status, headers, raw = await self.post("/v1/model-operations", {**body, "stream": True})
        assert status == 200, raw
        assert headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "no-cache"
        return records(raw)

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any, bytes]:
        """POST bytes, or a value as JSON; status, headers and bytes of the answer."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.client.post(path, data=io.BytesIO(raw), headers=headers) as answer:
            return answer.status, answer.headers, await answer.read()

    async def get(self, path: str) -> tuple[int, Any, bytes]:
        """GET; the path goes out as it is written."""
        async with self.client.get(URL(path, encoded=True)) as answer:
            return answer.status, answer.headers, await answer.read()

    @asynccontextmanager
    async def raw(
        self, path: str, body: Any, announced: int | None = None
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A POST on a socket of its own, which the test may leave as it likes."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**26)
        try:
            length = len(sent) if announced is None else announced
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n"
            writer.write(head.encode() + sent)
            yield reader, writer
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def until(self, holds: Callable[[Catalog], bool]) -> Catalog:
        """The first catalogue of which `holds` is true."""
        async with asyncio.timeout(5):
            return await self.router.workers.until(holds)

    async def idle(self) -> None:
        """Wait until no session is open; then no permit may be left."""
        async with asyncio.timeout(5):
            await self.router.sessions.until_idle()
        assert self.router.admission.in_flight == 0
        assert self.router.admission.by_pod == {}
        assert self.router.budget.held == 0


@asynccontextmanager
async def running_router(
    *records: ModelRecord,
    settings: RouterSettings = TEST_SETTINGS,
    ready: bool = True,
    source: FixedSource | None = None,
    steering: Steering = NO_STEERING,
    load_control: LoadControl | None = None,
    keyed: RequestRecords | None = None,
) -> AsyncIterator[RunningRouter]:
    """Serve records; with `ready`, from when every one of them can be called."""
    source = source or FixedSource()
    source.put(*records)
    router = Router(source, settings, steering, load_control=load_control, records=keyed)
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    async with (
        serving(router, listener),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        if ready:
            async with asyncio.timeout(5):
                await router.workers.until(
                    lambda c: len(c.rows) == len(records) and all(r.targets for r in c.rows)
                )
        yield RunningRouter(router, source, client, port)


def chat_operation(**changes: Any) -> dict[str, Any]:
    """The base operation of the handed cases, with changes."""
    body: dict[str, Any] = {
        "contract_version": 1,
        "request_id": "r1",
        "model": "llm",
        "capability": "chat_generation",
        "input": {"kind": "messages", "messages": [{"role": "user", "content": "hi"}]},
        "output": "text",
        "options": {"kind": "text_generation"},
    }
    body.update(changes)
    return {k: v for k, v in body.items() if v is not ...}


def records(raw: bytes) -> list[tuple[str, Any]]:
    """The records of a contract stream. Fails on anything that is not one."""
    *whole, rest = raw.decode().split("\n\n")
    assert rest == "", raw[-200:]
    found = []
    for record in whole:
        name, data = record.split("\n")
        value = json.loads(data.removeprefix("data: "))
        assert name == f"event: {value['kind']}"
        found.append((value["kind"], value))
    return found


#: For modules whose tests share a router: a router lives in one loop.
SHARED_LOOP = pytest.mark.asyncio(loop_scope="module")
