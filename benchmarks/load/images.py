"""Senders of one body, each one call after another, until the time is over.

    python images.py URL PATH BODY_FILE SENDERS SECONDS

A refusal because all media checks are running counts for nothing: the sender tries again. Prints
one JSON object: how many calls were answered, and refused so.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import aiohttp


async def run(url: str, path: str, body: bytes, senders: int, seconds: float) -> None:
    """Send."""
    until = time.monotonic() + seconds
    told = {200: 0, 503: 0}

    async def send(client: aiohttp.ClientSession) -> None:
        while time.monotonic() < until:
            async with client.post(url + path, data=body) as answer:
                await answer.read()
            told[answer.status] += 1
            if answer.status == 503:
                await asyncio.sleep(0.01)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        await asyncio.gather(*(send(client) for _ in range(senders)))
    print(json.dumps({"answered": told[200], "refused": told[503]}))


if __name__ == "__main__":
    url, path, file, senders, seconds = sys.argv[1:]
    asyncio.run(run(url, path, Path(file).read_bytes(), int(senders), float(seconds)))
