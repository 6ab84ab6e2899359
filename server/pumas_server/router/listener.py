"""A listening socket, made before anything heavy is imported: a taken port is told at once."""

from __future__ import annotations

import socket


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen. Raises `OSError` when that cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: asyncio turns Nagle's algorithm off only where it is, and with it on
    # a token waits for the acknowledgement of the token before (40 ms each, measured).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
