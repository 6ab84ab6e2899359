"""Graphs in ONNX Runtime: the one module of image generation that imports it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime

from pumas_server.worker.diffusion.graph import GraphInput, Tensor
from pumas_server.worker.diffusion.json_config import not_built
from pumas_server.worker.header_fault import no_model
from pumas_server.worker.legible import legible
from pumas_server.worker.onnx.session import open_session

_TYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
_ERRORS_ONLY = 3
#: Where convolutions are chosen by measuring them, two runs may choose, and so round, differently:
#: the same seed would not make the same image. So they are chosen by rule.
_CUDA_OPTIONS = {"cudnn_conv_algo_search": "HEURISTIC"}


class GraphSession:
    """A loaded graph. `run` may be called from any thread."""

    def __init__(self, name: str, session: onnxruntime.InferenceSession, device: str) -> None:
        self.name = name
        self.device = device
        self.inputs = {
            value.name: GraphInput(
                _read_dtype(name, value.name, value.type),
                tuple(size if isinstance(size, int) else None for size in value.shape),
            )
            for value in session.get_inputs()
        }
        self.outputs = tuple(value.name for value in session.get_outputs())
        self._session = session

    def run(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        """See `Graph`."""
        outputs: list[Tensor] = self._session.run(None, dict(feeds))
        return outputs


def open_graph(root: Path, name: str, device: str, threads: int) -> GraphSession:
    """Load the graph `name` of the folder `root`, with the data that lies beside it.

    `device` is `cpu`, `cuda` or `auto`, as for every model of this engine (`onnx.device`). Raises
    `EngineFault` where `cuda` is not to be had, and `HeaderFault` for a file that ONNX Runtime
    cannot load; a device that fails, or has no memory left, is no fault of the file and passes.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = _ERRORS_ONLY
    options.use_deterministic_compute = True
    # Threads that wait by spinning take the CPU from the other calls of this machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session, computing = open_session(root / name, options, device, _CUDA_OPTIONS)
    except _LOAD_ERRORS as error:
        # Its message names the file by its path.
        kind = type(error).__name__
        raise no_model(f"ONNX Runtime cannot load {name} ({kind})") from error
    return GraphSession(name, session, computing)


_STATE = onnxruntime.capi.onnxruntime_pybind11_state
_LOAD_ERRORS = (
    _STATE.Fail,
    _STATE.InvalidArgument,
    _STATE.InvalidGraph,
    _STATE.InvalidProtobuf,
    _STATE.NoSuchFile,
    _STATE.NotImplemented,
)


def _read_dtype(graph: str, name: str, word: str) -> np.dtype[np.generic]:
    known = _TYPES.get(word)
    if known is None:
        raise not_built(f"{graph}: the input {legible(name, 80)} has the type {legible(word, 80)}")
    return np.dtype(known)
