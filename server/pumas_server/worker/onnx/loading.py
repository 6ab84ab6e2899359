"""Loads an encoder for a mode: what its files say decides which, and whether it can."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.embedder import load_embedder
from pumas_server.worker.onnx.files import LocalFiles
from pumas_server.worker.onnx.folder import locate, read_model_folder
from pumas_server.worker.onnx.kind import Kind
from pumas_server.worker.onnx.reranker import load_reranker
from pumas_server.worker.onnx.served import Served
from pumas_server.worker.onnx.shared_space import load_shared_space


def load_encoder(path: Path, rerank: bool, device: str, threads: int) -> Served:
    """Load the model at `path`, its folder or its weights, to rerank or to embed.

    Raises `HeaderFault`, `EngineFault`, `OSError`.
    """
    root, name = locate(path)
    folder = read_model_folder(LocalFiles(root), name)
    if rerank is not (folder.kind is Kind.RERANKER):
        wanted = "rerank" if rerank else "embed"
        raise no_model(f"the model is of the kind {folder.kind}, which does not {wanted}")
    match folder.kind:
        case Kind.EMBEDDER:
            return load_embedder(root, folder, device, threads)
        case Kind.RERANKER:
            return load_reranker(root, folder, device, threads)
        case Kind.SHARED_SPACE:
            return load_shared_space(root, folder, device, threads)
        case _:
            assert_never(folder.kind)
