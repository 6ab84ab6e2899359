"""What a graph can be used for, from its inputs, its outputs and the model's config. Pure.

A graph is refused by the name of what stands against it: an input that nobody would feed, an
operator of a domain that is not there, outputs that are none of what this engine gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import HeaderFault, no_model
from pumas_server.worker.legible import legible
from pumas_server.worker.onnx.description import Description, count, member, text
from pumas_server.worker.onnx.element_types import FLOAT, FLOAT16, INT32, INT64, type_name
from pumas_server.worker.onnx.graph import Graph
from pumas_server.worker.onnx.port import Port

SHOWN = 80
DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"})
TOKENS = "input_ids"
MASK = "attention_mask"
TEXT_INPUTS = frozenset({TOKENS, MASK, "token_type_ids", "position_ids"})
PIXELS = "pixel_values"
LOGITS = "logits"
TEXT_VECTORS = "text_embeds"
IMAGE_VECTORS = "image_embeds"
TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")
SENTENCE_OUTPUT = "sentence_embedding"
_HEAD_CLASS = "ForSequenceClassification"


class Kind(StrEnum):
    """What is made of a model's outputs."""

    EMBEDDER = "embedder"
    RERANKER = "reranker"
    SHARED_SPACE = "shared space"


def select_kind(config: Description, text_graph: Graph, image_graph: Graph) -> Kind:
    """What these graphs, which may be one, are for. Raises `HeaderFault`."""
    graphs = (text_graph,) if image_graph is text_graph else (text_graph, image_graph)
    for graph in graphs:
        _check_inputs(graph)
        _check_operators(graph)
    inputs = {port.name for graph in graphs for port in graph.inputs}
    if PIXELS in inputs:
        _check_shared_space(inputs, text_graph, image_graph)
        return Kind.SHARED_SPACE
    if TOKENS not in inputs:
        raise no_model(f"the model has no input {TOKENS}")
    if has_ranking_head(config, text_graph):
        return Kind.RERANKER
    if token_output(text_graph) is not None or sentence_output(text_graph) is not None:
        return Kind.EMBEDDER
    raise HeaderFault(
        Reason.NOT_IMPLEMENTED,
        f"the model's outputs ({_names(text_graph.outputs)}) are neither vectors nor the score of"
        " a reranker with one label",
    )


def has_ranking_head(config: Description, graph: Graph) -> bool:
    """Whether the graph gives one score for a text: a classifier with a single label."""
    logits = _find(graph.outputs, LOGITS)
    architectures = config.get("architectures")
    classes = architectures if isinstance(architectures, list) else []
    if logits is None or not any(text(name).endswith(_HEAD_CLASS) for name in classes):
        return False
    labels = member(config, "id2label")
    said = len(labels) if isinstance(labels, dict) else count(config.get("num_labels"))
    width = logits.dims[-1] if logits.dims else None
    return said == 1 and width in (None, 1)


def token_output(graph: Graph) -> Port | None:
    """The output with a vector for each token: by its usual names, else by its three dimensions."""
    named = (port for name in TOKEN_OUTPUTS if (port := _find(graph.outputs, name)) is not None)
    found = next(named, None)
    if found is not None:
        return found
    return next((p for p in graph.outputs if p.rank == 3 and p.name != LOGITS), None)


def sentence_output(graph: Graph) -> Port | None:
    """The output with a vector for each text, which the graph has pooled itself."""
    return _find(graph.outputs, SENTENCE_OUTPUT)


def _check_inputs(graph: Graph) -> None:
    for port in graph.inputs:
        shown = legible(port.name, SHOWN)
        if port.name in TEXT_INPUTS:
            types, rank, free = (INT64, INT32), 2, 2
        elif port.name == PIXELS:
            types, rank, free = (FLOAT, FLOAT16), 4, 1
        else:
            raise no_model(f"the model has the input {shown}, which this engine does not feed")
        if port.element_type not in types:
            raise no_model(f"the model's input {shown} has the type {type_name(port.element_type)}")
        if port.dims is None:
            continue
        if len(port.dims) != rank:
            raise no_model(f"the model's input {shown} has {len(port.dims)} dimensions, not {rank}")
        if any(size is not None for size in port.dims[:free]):
            raise no_model(
                f"the model's input {shown} has a fixed shape; calls have as many and as long"
                " inputs as they need"
            )


def _check_operators(graph: Graph) -> None:
    unknown = sorted(
        operator for operator in graph.operators - graph.functions if operator.domain not in DOMAINS
    )
    if unknown:
        raise no_model(f"the model uses the operator {unknown[0]}, which this engine does not have")


def _check_shared_space(inputs: set[str], text_graph: Graph, image_graph: Graph) -> None:
    if TOKENS not in inputs:
        raise no_model(f"the model has no input {TOKENS}: it takes images alone")
    for graph, needed in ((text_graph, TEXT_VECTORS), (image_graph, IMAGE_VECTORS)):
        if _find(graph.outputs, needed) is None:
            raise no_model(
                f"the model has no output {needed}; its outputs are {_names(graph.outputs)}"
            )


def _find(ports: Iterable[Port], name: str) -> Port | None:
    return next((port for port in ports if port.name == name), None)


def _names(ports: tuple[Port, ...]) -> str:
    return ", ".join(legible(port.name, SHOWN) for port in ports[:8]) or "none"
