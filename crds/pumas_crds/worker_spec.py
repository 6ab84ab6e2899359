"""WorkerSpec: all that a serving pod is told, in one environment variable (`PUMAS_WORKER`).

The pod template's only source of truth: operator and local mode build it with the same pure
function, the worker parses it, and `spec_hash` tells one from another.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pumas_crds.resource import Closed
from pumas_crds.served_model import Engine, Source
from pumas_crds.vocabulary import Runtime, Task


class WorkerSpec(Closed):
    """What to fetch, inspect and run."""

    alias: str
    runtime: Runtime
    task: Task | None = None
    source: Source
    sha256: str | None = None
    engine: Engine = Engine()
    drain_seconds: Annotated[int, Field(ge=0)] = 30
    propagation_seconds: Annotated[float, Field(ge=0)] = 5
    """How long a stopping pod still answers, so that every router has seen it go."""
    spec_hash: str = ""
