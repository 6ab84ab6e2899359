"""The pod's own answers over HTTP: `/descriptor`, `/healthz`, `/readyz`.

Not aiohttp, for the reason given in `exchange`: here too HTTP is three GET routes without bodies,
one request a connection. Nothing is logged: probes and routers ask several times a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol

from pumas_crds.facts import PodDescriptor, PodState

REQUEST_LIMIT = 16_384
REQUEST_SECONDS = 10.0


class Pod(Protocol):
    """What is asked about."""

    @property
    def state(self) -> PodState:
        """Where the engine is in its life."""
        ...

    @property
    def unready_reason(self) -> str:
        """Why the pod is not ready, in a sentence."""
        ...

    async def descriptor(self) -> PodDescriptor:
        """All that is known."""
        ...


Reply = tuple[HTTPStatus, str]


class CannotListen(Exception):
    """The supervisor's port cannot be listened on."""


class DescriptorServer:
    """Listens while it is entered; leaving it closes every connection."""

    def __init__(self, pod: Pod, host: str, port: int) -> None:
        self._pod = pod
        self._host = host
        self._port = port
        self._connections: set[asyncio.Task[None]] = set()
        self._routes: dict[str, Callable[[], Awaitable[Reply]]] = {
            "/descriptor": self._descriptor,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }

    async def __aenter__(self) -> DescriptorServer:
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._port, limit=REQUEST_LIMIT
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "no such address"
            raise CannotListen(f"port {self._port} cannot be listened on: {reason}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            pass  # no request came, or nobody waits for the answer: there is nobody to tell
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._connections.discard(task)

    async def _answer(self, head: bytes) -> bytes:
        request_line = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(request_line) != 3 or not request_line[2].startswith("HTTP/1."):
            return _message(HTTPStatus.BAD_REQUEST, _reason("this is no HTTP/1 request"))
        method, target, _ = request_line
        route = self._routes.get(target.partition("?")[0])
        if route is None:
            return _message(HTTPStatus.NOT_FOUND, _reason("no such route"), method)
        if method not in ("GET", "HEAD"):
            return _message(
                HTTPStatus.METHOD_NOT_ALLOWED, _reason("only GET and HEAD"), method, "GET, HEAD"
            )
        status, body = await route()
        return _message(status, body, method)

    async def _descriptor(self) -> Reply:
        descriptor = await self._pod.descriptor()
        return HTTPStatus.OK, descriptor.model_dump_json(by_alias=False)

    async def _healthz(self) -> Reply:
        return HTTPStatus.OK, json.dumps({"alive": True})

    async def _readyz(self) -> Reply:
        ready = self._pod.state is PodState.READY
        body: dict[str, object] = {"ready": ready, "state": self._pod.state}
        if not ready:
            body["reason"] = self._pod.unready_reason
        return HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, json.dumps(body)


def _reason(text: str) -> str:
    return json.dumps({"reason": text})


def _message(status: HTTPStatus, body: str, method: str = "GET", allow: str = "") -> bytes:
    content = body.encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    lines += [f"Allow: {allow}"] if allow else []
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    return head if method == "HEAD" else head + content
