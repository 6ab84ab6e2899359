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
from pumas_crds.vocabulary import PROJECTOR_DIR, SOURCE_DIR, Runtime, Task


class WorkerSpec(Closed):
    """What to fetch, inspect and run."""

    alias: str
    runtime: Runtime
    task: Task | None = None
    source: Source
    projector: Source | None = None
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
        alone = self.runtime is Runtime.LLAMA_CPP
        return _place(self.source, SOURCE_DIR, models, self.sha256, alone=alone)

    def projector_file(self, models: str) -> str | None:
        """Where the projector is, likewise; None when there is none."""
        if self.projector is None:
            return None
        same = _claim(self.projector) is not None and _claim(self.projector) == _claim(self.source)
        claimed = SOURCE_DIR if same else PROJECTOR_DIR
        return _place(self.projector, claimed, models, None, alone=True)


def _claim(source: Source) -> str | None:
    claim = source.persistent_volume_claim
    return None if claim is None else claim.claim_name


def _place(source: Source, claimed: str, models: str, digest: str | None, *, alone: bool) -> str:
    if source.path is not None:
        return source.path
    if source.persistent_volume_claim is not None:
        return str(PurePosixPath(claimed, source.persistent_volume_claim.path))
    if digest is not None and alone:
        folder = f"sha256-{digest}"
    else:
        # The digest of one file does not tell one folder of files from another.
        told = source.model_dump_json(by_alias=True, exclude_none=True) + (digest or "")
        folder = f"source-{sha256(told.encode()).hexdigest()[:32]}"
    name = source.file_name() if alone else source.relative_name()
    return str(PurePosixPath(models, folder, name))
