"""What a GGUF header means for serving: header in, `FileFacts` out.

Reads the keys that all model families share; a family's own keys are found under the name that the
file itself gives its family, so no family occurs here.
"""

from __future__ import annotations

from collections import Counter

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import Reason
from pumas_server.worker.ggml_types import type_name
from pumas_server.worker.gguf_header import GgufHeader, Value
from pumas_server.worker.header_fault import HeaderFault, no_model
from pumas_server.worker.legible import legible

WORD_LIMIT = 128
NAME_LIMIT = 256
#: The head whose absence makes a reranker's scores meaningless: the engine gives them all the same.
RANKING_HEAD = "cls.output.weight"
POOLINGS: dict[int, str] = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}
UNKNOWN_POOLING = "unknown"


def file_facts(header: GgufHeader, size: int) -> FileFacts:
    """State what a file of `size` bytes with this header is.

    Raises `HeaderFault` for a well-formed file that is no model: an adapter, a projector, a
    vocabulary, or one part of several.
    """
    metadata = header.metadata
    _check_is_model(header)
    architecture = _text(metadata, "general.architecture")
    if not architecture or len(architecture) > WORD_LIMIT:
        raise no_model(f"general.architecture needs 1 to {WORD_LIMIT} characters")
    return FileFacts(
        architecture=legible(architecture, WORD_LIMIT),
        name=legible(_text(metadata, "general.name"), NAME_LIMIT),
        size_bytes=size,
        quantisation=_quantisation(header),
        parameters=sum(tensor.elements for tensor in header.tensors),
        context_tokens=_number(metadata, f"{architecture}.context_length"),
        embedding_width=_number(metadata, f"{architecture}.embedding_length"),
        tokenizer=legible(_text(metadata, "tokenizer.ggml.model"), WORD_LIMIT),
        chat_template=metadata.get("tokenizer.chat_template", "") != "",
        causal=metadata.get(f"{architecture}.attention.causal", True) is not False,
        pooling=_pooling(metadata, f"{architecture}.pooling_type"),
        ranking_head=any(tensor.name == RANKING_HEAD for tensor in header.tensors),
        decision=legible(_text(metadata, f"{architecture}.decision.type"), WORD_LIMIT),
    )


def _check_is_model(header: GgufHeader) -> None:
    metadata = header.metadata
    kind = _text(metadata, "general.type")
    if kind not in ("", "model"):
        raise no_model(f"the file's general.type is {legible(kind, 40)}, not model")
    parts = _number(metadata, "split.count")
    if parts > 1:
        # The facts, the digest and the size would be those of one part.
        raise HeaderFault(
            Reason.NOT_IMPLEMENTED,
            f"the file is one of {parts} parts; models in several files are not supported yet",
        )
    if not header.tensors:
        raise no_model("the file holds no weights")
    if not _text(metadata, "tokenizer.ggml.model"):
        raise no_model("the file has no tokenizer, so it is no model that reads text")


def _quantisation(header: GgufHeader) -> str:
    weights: Counter[int] = Counter()
    for tensor in header.tensors:
        weights[tensor.type_id] += tensor.elements
    return type_name(weights.most_common(1)[0][0])


def _text(metadata: dict[str, Value], key: str) -> str:
    """A string entry; empty when it is missing, no string, or absurdly long."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def _number(metadata: dict[str, Value], key: str) -> int:
    """A count as the engine reads it, in 32 bits; 0 for anything else."""
    value = metadata.get(key)
    return value if type(value) is int and 0 <= value < 1 << 32 else 0


def _pooling(metadata: dict[str, Value], key: str) -> str:
    value = metadata.get(key)
    if value is None:
        return ""
    return POOLINGS.get(value, UNKNOWN_POOLING) if type(value) is int else UNKNOWN_POOLING
