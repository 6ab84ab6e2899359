"""What the files of an ONNX model mean for serving: `Files` in, `FileFacts` out."""

from __future__ import annotations

from pumas_crds.facts import FileFacts
from pumas_server.worker.legible import legible
from pumas_server.worker.onnx.description import Description, count, member, text
from pumas_server.worker.onnx.files import Files
from pumas_server.worker.onnx.folder import ModelFolder, read_model_folder
from pumas_server.worker.onnx.kind import (
    TEXT_VECTORS,
    Kind,
    sentence_output,
    token_output,
)

WORD_LIMIT = 128
#: Names that configs give the width of the hidden state.
_WIDTHS = ("hidden_size", "dim", "d_model", "n_embd")


def read_onnx_facts(files: Files, name: str) -> FileFacts:
    """State what the model with the weights `name` is, all its files together.

    Raises `HeaderFault` for what this engine cannot serve, with the name of what stands against
    it, and what `files` raises.
    """
    return onnx_facts(read_model_folder(files, name))


def onnx_facts(folder: ModelFolder) -> FileFacts:
    """State what a model is whose files have been read. Pure."""
    graphs = {folder.weights: folder.graph, folder.image_weights: folder.image_graph}
    most = max(graphs.values(), key=lambda graph: graph.parameters)
    return FileFacts(
        architecture=legible(text(folder.config.get("model_type")), WORD_LIMIT),
        size_bytes=sum(folder.parts.values()),
        quantisation=most.quantisation,
        parameters=sum(graph.parameters for graph in graphs.values()),
        context_tokens=folder.context_tokens,
        embedding_width=embedding_width(folder),
        tokenizer=folder.tokenizer,
        causal=False,
        pooling=folder.pooling.value if folder.pooling else "",
        ranking_head=folder.kind is Kind.RERANKER,
        input_modalities=("text", "image") if folder.kind is Kind.SHARED_SPACE else ("text",),
    )


def embedding_width(folder: ModelFolder) -> int:
    """Values of one vector: as the graph says, else as the config does; 0 when neither does."""
    match folder.kind:
        case Kind.SHARED_SPACE:
            outputs = folder.graph.outputs
            port = next((port for port in outputs if port.name == TEXT_VECTORS), None)
            said = count(folder.config.get("projection_dim"))
        case Kind.EMBEDDER:
            port = token_output(folder.graph) or sentence_output(folder.graph)
            said = _hidden(folder.config)
        case Kind.RERANKER:
            return _hidden(folder.config)
    stated = port.dims[-1] if port is not None and port.dims else None
    return stated or said


def _hidden(config: Description) -> int:
    return next((size for name in _WIDTHS if (size := count(member(config, name)))), 0)
