"""What our engine processes have in common: how they listen, whom they let in, how they end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import uvicorn

BACKLOG = 1024
_STARTED = time.monotonic()
#: As the process began with it: a library may put another in its place.
_STDERR = sys.stderr


class Unservable(Exception):
    """Why the engine cannot serve, in a sentence without places."""


class EndingServer(uvicorn.Server):
    """Ends the process at a signal: what is being computed cannot be stopped in any other way."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End at once."""
        end(0)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `Unservable` when the port is taken or the address is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        told = error.strerror or "no such address"
        raise Unservable(f"port {port} cannot be listened on: {told}") from None
    return listener


def read_key(path: Path | None) -> str:
    """The first key of the file; lines that start with # are comments. "" without a file."""
    if path is None:
        return ""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        told = type(error).__name__
        raise Unservable(f"the file of API keys cannot be read: {told}") from None
    keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not keys:
        raise Unservable("the file of API keys holds no key")
    return keys[0]


async def serve(
    engine: str, app: Any, listener: socket.socket, bring_up: Callable[[], None]
) -> None:
    """Answer with the ASGI application `app` from now on, and have its model loaded meanwhile.

    `bring_up` is called on a thread; its `Unservable` ends the process, with the reason said.
    """
    server = EndingServer(
        uvicorn.Config(
            app,
            http="httptools",
            loop="none",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.to_thread(bring_up)
    except Unservable as reason:
        say(engine, str(reason))
        end(1)
    await serving


def seconds() -> float:
    """The age of this process, as engines begin their lines with it."""
    return time.monotonic() - _STARTED


def say(engine: str, sentence: str) -> None:
    """One line as engines write their errors: seconds, level, where, what."""
    print(f"{seconds():.3f} E srv  {engine}: {sentence}", file=_STDERR, flush=True)


def end(status: int) -> NoReturn:
    """End the process, whatever its threads are doing."""
    _STDERR.flush()
    os._exit(status)


def bounded(least: int, most: int) -> Callable[[str], int]:
    """Reads a number of a flag."""

    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError
        return value

    return number
