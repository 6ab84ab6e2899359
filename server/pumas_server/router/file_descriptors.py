"""File descriptors: how many connections they are enough for.

Accepting without one left fails in the event loop, again and again, and takes the upstream
connections' descriptors away: better that a connection is refused which could be accepted.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

from pumas_server.router.connections import MAX_BEYOND

#: The loop's own, log files, the API server's connections, threads' pipes; and what is told no.
_OTHERS = 64 + MAX_BEYOND
_MOST_BACKLOG = 2048
_LEAST = 16


@dataclass(frozen=True, slots=True)
class Shares:
    """What descriptors are for."""

    connections: int
    """Callers' connections that may be open."""
    backlog: int
    """Connections that wait to be accepted: the loop takes all of them before it looks at one."""


def share_out(descriptors: int, connections: int, upstream: int) -> Shares:
    """How many of the wanted connections can be had; `upstream` is the calls in flight at most."""
    backlog = max(_LEAST, min(_MOST_BACKLOG, descriptors // 8))
    left = descriptors - _OTHERS - backlog
    # No more calls are in flight than connections are open.
    able = max(left - upstream, left // 2, _LEAST)
    return Shares(min(connections, able), backlog)


def wanted(connections: int, upstream: int) -> int:
    """Descriptors with which `share_out` gives all that is asked for."""
    return connections + upstream + _OTHERS + _MOST_BACKLOG


def have_descriptors(count: int) -> int:
    """Raise this process's soft limit to `count` or as far as it may; gives what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    if soft == infinite or soft >= count:
        return count
    able = count if hard == infinite else min(count, hard)
    if able > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (able, hard))
        except (ValueError, OSError):
            # A kernel may have a bound of its own below the hard limit.
            return soft
    return max(able, soft)
