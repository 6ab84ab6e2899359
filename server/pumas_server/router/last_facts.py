"""What is known of a model that nobody can ask now: its status, else its file. Pure.

The facts of a running engine are kept in the status for the spec that it ran; before it ever ran,
the header of its file says at least what it will be started for.
"""

from __future__ import annotations

from pumas_crds.engine_mode import ModeChoice, engine_mode
from pumas_crds.facts import FileFacts, RuntimeStatus
from pumas_crds.vocabulary import Runtime
from pumas_server.capabilities import Facts
from pumas_server.contract.descriptors import Modalities
from pumas_server.router.source import ModelRecord


def select_runtime(record: ModelRecord) -> RuntimeStatus | None:
    """What the engine said when it last ran this very spec."""
    status = record.model.status
    same = bool(record.spec_hash) and status.spec_hash == record.spec_hash
    return status.runtime if same else None


def last_facts(record: ModelRecord) -> Facts:
    """The facts of a model at rest; of an `external` server none are known."""
    model = record.model
    if model.spec.runtime is Runtime.EXTERNAL:
        return Facts()
    told = select_runtime(record)
    if told is not None:
        return Facts(
            mode=told.mode,
            modalities=Modalities(input=told.input_modalities, output=told.output_modalities),
            context_tokens=told.context_tokens or None,
            embedding_width=told.embedding_width or None,
            limits=told.limits or (),
        )
    file = model.status.file
    if file is None:
        return Facts()
    chosen = engine_mode(model.spec.task, file)
    mode = chosen.mode if isinstance(chosen, ModeChoice) else None
    return Facts(mode=mode, expected_input=select_inputs(file))


def select_inputs(file: FileFacts | None) -> tuple[str, ...]:
    """Kinds of content that a model of these files will take; none while they were not read."""
    if file is None:
        return ()
    if file.input_modalities is not None:
        return file.input_modalities
    return ("text", *(file.projector.input_modalities if file.projector is not None else ()))
