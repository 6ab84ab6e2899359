"""WorkerSpec: all that a serving pod is told, in one environment variable (`PUMAS_WORKER`).

The pod template's only source of truth: operator and local mode build it with the same pure
function, the worker parses it, and `spec_hash` tells one from another.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import Field

from pumas_crds.engine import Engine
from pumas_crds.resource import Closed
from pumas_crds.source import Source
from pumas_crds.vocabulary import SOURCE_DIR, Runtime, Task


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

    def weights_file(self, models: str) -> str:
        """Where the weights file is in the pod, or will be once it is fetched below `models`.

        A fetched file has a folder of its own, named by the digest that it must have, else by
        where it comes from: no two files are ever one.
        """
        source = self.source
        if source.path is not None:
            return source.path
        if source.persistent_volume_claim is not None:
            return str(PurePosixPath(SOURCE_DIR, source.persistent_volume_claim.path))
        if self.sha256 is not None:
            folder = f"sha256-{self.sha256}"
        else:
            told = source.model_dump_json(by_alias=True, exclude_none=True)
            folder = f"source-{sha256(told.encode()).hexdigest()[:32]}"
        return str(PurePosixPath(models, folder, source.file_name()))
