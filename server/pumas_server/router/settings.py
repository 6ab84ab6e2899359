"""What an operator of the router may set, with units and reasons."""

from __future__ import annotations

from dataclasses import dataclass

from pumas_server.router.lmsp.problems import PAGES


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Limits and times of one router process."""

    max_in_flight: int = 1024
    """Admitted calls of all models together; the next is refused at once."""
    model_share: float = 0.5
    """How much of them one model may hold beside others (`admission` has the rule); 1: all."""
    max_held: int = 1024
    """Calls that wait for models to be loaded; the next is refused at once."""
    external_in_flight: int = 64
    """Admitted calls of one `external` server: we do not know its slots."""
    image_permits: int = 2
    """Requests whose media are checked at once; the next is refused at once."""
    max_connections: int = 16_384
    """Callers' connections that may be open; fewer when file descriptors are fewer."""
    idle_seconds: float = 75.0
    """How long a connection may stay open on which nothing is asked."""
    header_seconds: float = 10.0
    """How long a request's header may take from its first byte."""
    body_seconds: float = 30.0
    """How long nothing of a request's body may come."""
    body_rate: float = 16_384.0
    """Bytes of a body in a second, over the whole of it, after its first `body_seconds`."""
    linger_seconds: float = 5.0
    """How long a caller that has its answer may go on sending the request before it is cut."""
    connect_seconds: float = 10.0
    """How long connecting to an endpoint may take. Nothing after it has a deadline."""
    buffer_bytes: int = 268_435_456
    """Bytes of request bodies and finite answers held at once by the process; the last sixteenth is
    for calls of up to 64 KiB."""
    propagation_seconds: float = 5.0
    """How long a stopping router still accepts, so that everybody has seen it go."""
    drain_seconds: float = 10.0
    """How long admitted calls may finish when the router stops."""
    model_management: bool = False
    """Whether models may be loaded and unloaded by request."""
    problem_pages: str = PAGES
    """What the `type` of a problem begins with; an absolute URL where clients collect them."""
