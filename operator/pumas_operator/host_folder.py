"""Which folder of a node a `path` source needs: what is mounted, and what a profile must allow.

One function for both, so that never more is mounted than was allowed.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from pumas_crds.vocabulary import ONNX_FOLDER, ONNX_SUFFIX, PIPELINE_INDEX, Runtime

ROOT = "/"


def host_folder(path: str, runtime: Runtime) -> str:
    """The folder that holds all files of the model.

    Of GGUF the file's own: the parts of a split model lie beside the first. An ONNX model is a
    folder, named itself or by the graph in it, which may lie one folder deeper.
    """
    named = PurePosixPath(path)
    if runtime is not Runtime.ONNX_RUNTIME:
        return str(named.parent)
    if named.name == PIPELINE_INDEX:
        return str(named.parent)
    if not path.endswith(ONNX_SUFFIX):
        return str(named)
    return str(named.parent.parent if named.parent.name == ONNX_FOLDER else named.parent)
