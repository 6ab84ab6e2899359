"""The bare forwarder: the least that plain ASGI and aiohttp can do, without a single check.

PROVIDER=http://127.0.0.1:9000 uvicorn forwarder:app
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp

PROVIDER = os.environ.get("PROVIDER", "")
_clients: list[aiohttp.ClientSession] = []


async def app(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Read the body, post it, send what comes as it comes."""
    if not _clients:
        connector = aiohttp.TCPConnector(limit=0)
        _clients.append(aiohttp.ClientSession(connector=connector, auto_decompress=False))
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    async with _clients[0].post(PROVIDER + scope["path"], data=body) as response:
        kind = response.headers["content-type"].encode()
        headers = [(b"content-type", kind)]
        if "content-length" in response.headers:
            headers.append((b"content-length", response.headers["content-length"].encode()))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        async for chunk in response.content.iter_any():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
