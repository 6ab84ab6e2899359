"""What a loaded ONNX model offers: the seam between a model's mathematics and the HTTP around it.

An embedder, a reranker and an image pipeline each make one `Served`; the server asks nothing else
of them. A handler is called on a thread of the engine's own, with the decoded JSON object of a
request; it returns the JSON of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


class Unfit(Exception):
    """A request that cannot be carried out: answered 400; the message names field and limit."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The range of one option or of one measure of the input, in the contract's words."""

    option: str
    minimum: int
    maximum: int


Handler = Callable[[dict[str, object]], bytes]


@dataclass(frozen=True, slots=True)
class Served:
    """One loaded model, ready for calls."""

    handlers: Mapping[str, Handler]
    """What is done with a POST, by path, such as `/v1/embeddings`."""
    checks: Mapping[str, Callable[[dict[str, object]], None]]
    """By the same paths: refuses with `Unfit` what the handler would refuse, and does no work."""
    input_modalities: tuple[str, ...]
    output_modalities: tuple[str, ...]
    device: str
    """Where it computes, by the session's own account: `cpu` or `cuda`."""
    limits: tuple[Limit, ...] = ()
    embedding_width: int = 0
    context_tokens: int = 0
    """Tokens of one input, special ones included; 0 when the model does not say."""
