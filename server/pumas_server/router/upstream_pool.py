"""The pool: connections to providers that are between two calls, and the making of new ones.

An engine closes a connection that was idle for 5 s, and any after 100 requests, without saying so
before. A call on such a connection would be `unknown` by our own doing, so a connection is used
again only within 2 s and for 90 requests in all.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from functools import cache
from ipaddress import ip_address
from time import monotonic

from aiohappyeyeballs import start_connection

from pumas_server.router.addresses import Addresses
from pumas_server.router.origin import Origin
from pumas_server.router.upstream_connection import UpstreamConnection

IDLE_SECONDS = 2.0
MAX_USES = 90
_NEXT_ADDRESS_SECONDS = 0.25


class ConnectFailed(Exception):
    """No connection to an endpoint could be made; nothing was sent."""


class UpstreamPool:
    """The connections of one router process to its providers."""

    def __init__(self, connect_seconds: float) -> None:
        self._connect_seconds = connect_seconds
        self._addresses = Addresses()
        self._all: dict[UpstreamConnection, Origin] = {}
        self._idle: dict[Origin, OrderedDict[UpstreamConnection, None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, origin: Origin) -> UpstreamConnection:
        """A connection that is nobody else's: the one that rested longest, or a new one.

        Of a provider that closes after an answer without having said so it has had the most time
        to notice. Raises `ConnectFailed`.
        """
        idle = self._idle.get(origin)
        while idle:
            connection, _ = idle.popitem(last=False)
            if connection.open and monotonic() - connection.rested < IDLE_SECONDS:
                return connection
            connection.close()
        return await self._connect(origin)

    def give_back(self, connection: UpstreamConnection) -> None:
        """The call of a connection is over. It is kept when it can carry another."""
        if not connection.leave():
            return
        origin = self._all.get(connection)
        if origin is None or connection.uses >= MAX_USES:
            connection.close()
            return
        self._idle.setdefault(origin, OrderedDict())[connection] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    def close(self) -> None:
        """Close every connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._addresses.close()
        for connection in tuple(self._all):
            connection.close()

    async def _connect(self, origin: Origin) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        tls, name = (_tls(), origin.host) if origin.tls else (None, None)

        def made() -> UpstreamConnection:
            return UpstreamConnection(self._forget)

        try:
            async with asyncio.timeout(self._connect_seconds):
                if _is_address(origin.host):
                    _, connection = await loop.create_connection(
                        made, origin.host, origin.port, ssl=tls, server_hostname=name
                    )
                else:
                    # A silent address does not keep the others from being tried (RFC 8305).
                    connected = await start_connection(
                        await self._addresses.find(origin),
                        happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                        loop=loop,
                    )
                    _, connection = await loop.create_connection(
                        made, sock=connected, ssl=tls, server_hostname=name
                    )
        except (OSError, TimeoutError, UnicodeError):
            raise ConnectFailed from None
        self._all[connection] = origin
        if not connection.open:
            # It was lost before anybody had it.
            self._forget(connection)
            raise ConnectFailed
        return connection

    def _forget(self, connection: UpstreamConnection) -> None:
        origin = self._all.pop(connection, None)
        idle = self._idle.get(origin) if origin is not None else None
        if origin is None or idle is None:
            return
        idle.pop(connection, None)
        if not idle:
            del self._idle[origin]

    def _sweep(self) -> None:
        """Close what was idle for too long, and look again when the next one will be."""
        self._timer = None
        now, oldest = monotonic(), None
        for idle in self._idle.values():
            for connection in tuple(idle):
                if now - connection.rested >= IDLE_SECONDS:
                    connection.close()
                elif oldest is None or connection.rested < oldest:
                    oldest = connection.rested
        if oldest is not None:
            pause = oldest + IDLE_SECONDS - now
            self._timer = asyncio.get_running_loop().call_later(pause, self._sweep)


def _is_address(host: str) -> bool:
    """Whether there is nothing to look up, as with a pod.

    The loops do that on few threads, uvloop before it connects any socket that it is given: another
    provider's silent name server can hold all of them for long.
    """
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


@cache
def _tls() -> ssl.SSLContext:
    """Servers are to prove who they are to whatever authorities the system trusts."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
