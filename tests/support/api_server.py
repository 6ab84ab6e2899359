"""A scripted Kubernetes API server on a real socket: lists, watches, writes, and what goes wrong.

It keeps collections by path, with one version that grows with every change, and a history from
which a watch goes on. A fault is an async function that answers one request in the server's place.
Whatever else an API server answers, `elsewhere` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.api_store import ApiStore, split_path
from support.eventually import eventually

MODELS = "/apis/serving.pumas.dev/v1alpha1/servedmodels"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


@dataclass
class Asked:
    """One request as it came in."""

    path: str
    query: dict[str, str]
    token: str
    at: float
    method: str = "GET"
    body: Any = None
    """Parsed; None when there was none."""
    content_type: str = ""

    @property
    def watches(self) -> bool:
        return self.query.get("watch") == "true"


Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]
Elsewhere = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class _Watch:
    path: str
    to_send: asyncio.Queue[bytes | None]
    request: web.Request


@dataclass
class ScriptedApiServer:
    """See the module."""

    asked: list[Asked] = field(default_factory=list)
    page: int = 500
    """Objects a page, if the caller's limit is not lower."""
    faults: deque[tuple[str, bool, str, Fault]] = field(default_factory=deque)
    """What answers the next listing or watch or write of a path."""
    elsewhere: Elsewhere | None = None
    """Answers requests of any method before this does; what it gives None for is this one's."""
    port: int = 0
    store: ApiStore = field(default_factory=ApiStore)
    loop: asyncio.AbstractEventLoop = field(init=False)
    """Where it serves."""
    _history: list[tuple[int, str, bytes]] = field(default_factory=list)
    _forgotten: int = 0
    _watches: list[_Watch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store.changed = self._happen

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ScriptedApiServer]:
        """Serve while the block lasts; on the same port when it is entered again."""
        self.loop = asyncio.get_running_loop()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            for watch in self._watches:
                _abort(watch.request)
            await runner.cleanup()

    # What there is

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Make or replace an object."""
        self.store.put(path, body)

    def delete(self, path: str, body: dict[str, Any]) -> None:
        """Remove an object."""
        self.store.remove(path, body["metadata"]["uid"])

    def _happen(self, path: str, kind: str, body: dict[str, Any]) -> None:
        line = _line(kind, body)
        self._history.append((self.store.version, path, line))
        self.send(path, line)

    def compact(self) -> None:
        """Forget what happened: a watch can go on from now only."""
        self._forgotten = self.store.version
        self._history.clear()

    # What comes over the watches that are open

    def send(self, path: str, raw: bytes) -> None:
        """Any bytes."""
        for watch in self._open(path):
            watch.to_send.put_nowait(raw)

    def bookmark(self, path: str) -> None:
        """Say how far a watch is. What happened elsewhere has moved the version on."""
        self.store.version += 1
        self.send(
            path, _line("BOOKMARK", {"metadata": {"resourceVersion": str(self.store.version)}})
        )

    def expire(self, path: str) -> None:
        """End a watch with the error event of a version that is gone."""
        self.compact()
        self.send(path, _line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))

    def end(self, path: str) -> None:
        """End watches in good order."""
        for watch in self._open(path):
            watch.to_send.put_nowait(None)

    async def cut(self, path: str) -> None:
        """Break the connections of watches, once all that was sent has gone out."""
        for watch in self._open(path):
            await eventually(watch.to_send.empty, "it is sent")
            _abort(watch.request)

    def watching(self, path: str) -> int:
        """How many watches of a path are open."""
        return len(self._open(path))

    def _open(self, path: str) -> list[_Watch]:
        return [watch for watch in self._watches if watch.path == path]

    # What was asked

    def lists(self, path: str) -> int:
        """Listings that were begun."""
        return sum(
            a.path == path and not a.watches and "continue" not in a.query for a in self.asked
        )

    def watches(self, path: str) -> list[Asked]:
        """Watches that were asked for."""
        return [a for a in self.asked if a.path == path and a.watches]

    def fail(self, path: str, fault: Fault, *, watch: bool = False, method: str = "GET") -> None:
        """Let a fault answer the next listing, or watch, or request of another method."""
        self.faults.append((path, watch, method, fault))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        now = asyncio.get_running_loop().time()
        token = request.headers.get("Authorization", "")
        raw = await request.read()
        asked = Asked(request.path, dict(request.query), token, now, request.method)
        asked.body, asked.content_type = json.loads(raw) if raw else None, request.content_type
        self.asked.append(asked)
        for fault in self.faults:
            if fault[:3] == (asked.path, asked.watches, asked.method):
                self.faults.remove(fault)
                return await fault[3](request)
        told = None if self.elsewhere is None else await self.elsewhere(request)
        if told is not None:
            return told
        return await self.carry_out(request)

    async def carry_out(self, request: web.Request) -> web.StreamResponse:
        """What the request asks for."""
        _, name, _ = split_path(request.path)
        if request.method == "GET" and not name:
            watches = request.query.get("watch") == "true"
            return await (self._watch if watches else self._list)(request)
        raw = await request.read()
        status, body = self.store.do(request.method, request.path, raw, request.content_type)
        return web.json_response(body, status=status)

    def and_then(self, fault: Fault) -> Fault:
        """Do what was asked, and answer something else."""

        async def answer(request: web.Request) -> web.StreamResponse:
            await self.carry_out(request)
            return await fault(request)

        return answer

    async def _list(self, request: web.Request) -> web.StreamResponse:
        start = int(request.query.get("continue", "0"))
        limit = min(self.page, int(request.query.get("limit", "500")))
        items = self.store.listed(request.path, request.query.get("labelSelector", ""))
        metadata = {"resourceVersion": str(self.store.version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self._forgotten:
            return web.Response(status=410)
        watch = _Watch(request.path, asyncio.Queue(), request)
        for version, path, line in self._history:
            if path == request.path and version > since:
                watch.to_send.put_nowait(line)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        answer.enable_chunked_encoding()
        self._watches.append(watch)
        try:
            await answer.prepare(request)
            async with asyncio.timeout(float(request.query["timeoutSeconds"])):
                while (raw := await watch.to_send.get()) is not None:
                    await answer.write(raw)
        except TimeoutError:
            return answer
        finally:
            self._watches.remove(watch)
        return answer


def _line(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()


# Faults


def refuse(status: int, reason: str = "") -> Fault:
    """An answer of that status."""
    told = {"kind": "Status", "code": status} | ({"reason": reason} if reason else {})

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(told, status=status)

    return answer


def say(raw: bytes) -> Fault:
    """A whole 200 of these bytes."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=raw, content_type="application/json")

    return answer


async def cut(request: web.Request) -> web.StreamResponse:
    """No answer: the connection breaks."""
    _abort(request)
    return web.Response()


async def hang(request: web.Request) -> web.StreamResponse:
    """No answer, and the connection stays."""
    with contextlib.suppress(ConnectionError):
        await asyncio.Event().wait()
    return web.Response()


def fall_silent(raw: bytes = b"") -> Fault:
    """A 200 that brings these bytes and nothing more, and does not end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        if raw:
            await response.write(raw)
        await asyncio.Event().wait()
        return response

    return answer


def held(gate: asyncio.Event, then: Fault) -> Fault:
    """Another answer, once the gate opens."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await then(request)

    return answer
