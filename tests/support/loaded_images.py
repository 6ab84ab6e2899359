"""Loads an image pipeline for a test, short of the handler around it."""

from __future__ import annotations

from pathlib import Path

from pumas_server.worker.diffusion.graph_session import open_graph
from pumas_server.worker.diffusion.loaded_pipeline import open_pipeline
from pumas_server.worker.diffusion.pipeline import Pipeline, select_strength
from pumas_server.worker.diffusion.pipeline_folder import read_pipeline_folder
from pumas_server.worker.onnx.files import LocalFiles


def load_pipeline(root: Path, steps: int | None = None, guidance: float | None = None) -> Pipeline:
    """The pipeline of a folder, on one thread."""
    folder = read_pipeline_folder(LocalFiles(root).read)
    strength = select_strength(folder, steps, guidance)
    return open_pipeline(folder, lambda name: open_graph(root, name, "cpu", 1), strength)
