"""The files that a model is, by its runtime: one checker for all that lies on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import Reason, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.weights import Say, check_projector, check_weights, refused


def check_files(spec: WorkerSpec, models: str, say: Say, *, digest: bool = True) -> FileFacts:
    """Check all files of the model, fetched below `models` or served where they lie.

    Without `digest` all but that, which reads every byte: it was checked when they came. `say` is
    told of progress about every second. Raises `Refused`.
    """
    # Of the spec as it is: a fetched file lies where its digest says.
    path = Path(spec.weights_file(models))
    spec = spec if digest else spec.model_copy(update={"sha256": None})
    match spec.runtime:
        case Runtime.LLAMA_CPP:
            facts = check_weights(spec, path, say)
            projector = spec.projector_file(models)
            if spec.projector is None or projector is None:
                return facts
            return check_projector(spec.projector, Path(projector), facts)
        case Runtime.ONNX_RUNTIME:
            raise refused(Reason.NOT_IMPLEMENTED, "ONNX")
        case Runtime.EXTERNAL:
            raise refused(Reason.NOT_IMPLEMENTED, "an external server has no files of ours")
        case _:
            assert_never(spec.runtime)
