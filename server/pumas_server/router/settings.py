"""What an operator of the router may set, with units and reasons."""

from __future__ import annotations

from dataclasses import dataclass

from pumas_server.router.lmsp.problems import PAGES


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Limits and times of one router process."""

    max_in_flight: int = 1024
    """Admitted calls of all models together; the next is refused at once."""
    max_held: int = 1024
    """Calls that wait for models to be loaded; the next is refused at once."""
    external_in_flight: int = 64
    """Admitted calls of one `external` server: we do not know its slots."""
    image_permits: int = 2
    """Requests whose media are checked at once; the next is refused at once."""
    connect_seconds: float = 10.0
    """How long connecting to an endpoint may take. Nothing after it has a deadline."""
    buffer_bytes: int = 268_435_456
    """Bytes of request bodies and finite answers held at once by the process."""
    propagation_seconds: float = 5.0
    """How long a stopping router still accepts, so that everybody has seen it go."""
    drain_seconds: float = 10.0
    """How long admitted calls may finish when the router stops."""
    model_management: bool = False
    """Whether models may be loaded and unloaded by request."""
    problem_pages: str = PAGES
    """What the `type` of a problem begins with; an absolute URL where clients collect them."""
