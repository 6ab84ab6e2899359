"""A listening socket, made before anything heavy is imported: a taken port is told at once."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen; `::` takes IPv4 too. Raises `OSError` when that cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: asyncio turns Nagle's algorithm off only where it is, and with it on
    # a token waits for the acknowledgement of the token before (40 ms each, measured).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == "::":
            # Whatever the system's default is: every address means those of IPv4 too.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, port))
        listener.listen(2048)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


#: What binding `::` says where the system has no IPv6, or has it turned off.
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})


def listen_everywhere(port: int) -> socket.socket:
    """Listen at every address of the machine, of both families where there are both."""
    try:
        return listen("::", port)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
    return listen("0.0.0.0", port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; of names, `localhost` alone is one."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
