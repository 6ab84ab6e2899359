"""What is known of a model file, of a running engine, and how a serving pod reports both.

Facts are observations: nothing here is asked for by a user. `PodDescriptor` is the body of a
serving pod's `GET /descriptor`; it grows additively under `descriptor_version`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from pumas_crds.resource import Open
from pumas_crds.vocabulary import EngineMode, Reason

DESCRIPTOR_VERSION = 1

Word = Annotated[str, Field(max_length=128)]


class Fault(Open):
    """Why something cannot serve."""

    reason: Reason
    """One word for machines."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """One sentence for people; it names no path and no address."""


class FileFacts(Open):
    """What the header of a weights file says, without loading it."""

    architecture: Word
    """The file's own name for its architecture."""
    name: Annotated[str, Field(max_length=256)] = ""
    """The file's own title."""
    size_bytes: Annotated[int, Field(ge=0)] = 0
    """Size of the file."""
    digest: Annotated[str, Field(max_length=71)] = ""
    """`sha256:` and the hexadecimal digest, when it was computed."""
    quantisation: Word = ""
    """Type of most of the weights, such as `Q4_K`."""
    parameters: Annotated[int, Field(ge=0)] = 0
    """Number of weights."""
    context_tokens: Annotated[int, Field(ge=0)] = 0
    """Context that the model was trained with; 0 when the file does not say."""
    embedding_width: Annotated[int, Field(ge=0)] = 0
    """Width of the hidden state, hence of an embedding."""
    tokenizer: Word = ""
    """The tokenizer's family."""
    chat_template: bool = False
    """Whether the file carries a chat template."""
    causal: bool = True
    """False for an encoder, which cannot generate text."""
    pooling: Word = ""
    """How token vectors become one (`mean`, `cls`, `last`, `rank`, `none`); empty when unsaid."""
    ranking_head: bool = False
    """Whether `cls.output.weight`, the head of a reranker, is there."""
    decision: Word = ""
    """The decision family of a native decision model; empty for any other."""
    input_modalities: Annotated[tuple[Word, ...], Field(max_length=16)] | None = None
    """Kinds of content it takes; absent when the file alone does not tell."""


class Inspection(Open):
    """What `fetch` leaves as its container's termination message: exactly one of the two."""

    file: FileFacts | None = None
    """What the weights file is, when it can be served."""
    error: Fault | None = None
    """Why it cannot."""


class RuntimeFacts(Open):
    """What a running engine says of itself."""

    build: Word = ""
    """The engine's own build identity."""
    context_tokens: Annotated[int, Field(ge=0)] = 0
    """Context of one slot, in tokens."""
    slots: Annotated[int, Field(ge=0)] = 0
    """Requests that it works on at once."""
    input_modalities: Annotated[tuple[Word, ...], Field(max_length=16)] = ()
    """Kinds of content it takes. Empty: it has not answered."""
    output_modalities: Annotated[tuple[Word, ...], Field(max_length=16)] = ()
    """Kinds of result it gives."""
    embedding_width: Annotated[int, Field(ge=0)] = 0
    """Width of its vectors."""
    tool_calls: bool | None = None
    """Whether its chat template knows tools, and calls of them; absent when it does not."""
    device: Word = ""
    """Where it computes, by its own account: `cpu`, or `gpu 24/36` with the layers that are there.

    Empty: it has not told.
    """


class RuntimeStatus(RuntimeFacts):
    """What a running engine says of itself, and what it was started for."""

    mode: EngineMode | None = None
    """What the engine does."""
    mode_reason: Annotated[str, Field(max_length=256)] = ""
    """Why it was started for that."""


class PodState(StrEnum):
    """The life of an engine under its supervisor."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    DRAINING = "draining"


class PodDescriptor(Open):
    """The body of `GET /descriptor`."""

    descriptor_version: int = DESCRIPTOR_VERSION
    spec_hash: Word = ""
    """Which spec this pod runs."""
    boot_id: Word = ""
    """Changes with every start of the engine process; empty before the first."""
    state: PodState
    busy: Annotated[int, Field(ge=0)] = 0
    """Requests that the engine is working on now."""
    mode: EngineMode | None = None
    mode_reason: Annotated[str, Field(max_length=256)] = ""
    file: FileFacts | None = None
    runtime: RuntimeFacts | None = None
    """None until the engine has answered."""
    error: Fault | None = None
    """The last failure, kept until the engine is ready again."""
    restarts: Annotated[int, Field(ge=0)] = 0
