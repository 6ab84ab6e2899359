"""Ports of this machine that are nobody else's for as long as they are held.

Between the choice of a number and the bind of the program it was chosen for, another socket could
get it: a second pod's, or an outgoing connection's. So the socket that got the number stays bound,
and never listens. To the system the port is taken; whoever names it and asks to share it, as every
server here does before it binds, gets it all the same.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pumas_local.pod import LOOPBACK, Ports


@contextmanager
def hold_ports() -> Iterator[Ports]:
    """Two ports that no other socket gets unless it names them, until this is left."""
    with ExitStack() as held:
        engine, supervisor = (_hold(held) for _ in range(2))
        yield Ports(engine=engine, supervisor=supervisor)


def _hold(held: ExitStack) -> int:
    holder = held.enter_context(socket.socket())
    holder.bind((LOOPBACK, 0))
    # Only now: a socket that would share from the start may be given a port that is shared
    # already. Servers ask for the one or the other, so both are granted.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    number: int = holder.getsockname()[1]
    return number
