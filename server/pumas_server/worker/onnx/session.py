"""The adapter of ONNX Runtime: one graph loaded, and run.

The only module that imports it. Threads are given, nodes run one after another, and no memory is
kept for shapes that may never come again: no arena and no memory patterns, which both grow with
every new length of text (benchmarks/onnx.py measures what that costs and saves).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as _errors

from pumas_server.contract.redaction import redact_foreign
from pumas_server.worker.onnx.device import (
    CUDA_PROVIDER,
    DeviceRefusal,
    device_of,
    select_providers,
)
from pumas_server.worker.onnx.fault import EngineFault

Array = np.ndarray[Any, np.dtype[Any]]

#: Only errors are written to stderr: warnings of foreign graphs are many and help nobody.
_ERRORS_ONLY = 3
#: A device's memory grows by what is asked for, not by doubling.
_CUDA_OPTIONS = {"arena_extend_strategy": "kSameAsRequested"}
_FAULTS = (
    _errors.EPFail,
    _errors.EngineError,
    _errors.Fail,
    _errors.InvalidArgument,
    _errors.InvalidGraph,
    _errors.InvalidProtobuf,
    _errors.ModelRequiresCompilation,
    _errors.NoModel,
    _errors.NoSuchFile,
    _errors.NotFound,
    _errors.NotImplemented,
    _errors.RuntimeException,
)
_OPERATORS = (
    re.compile(r"No Op registered for (?P<name>[\w.]+)"),
    re.compile(r"Fatal error: (?P<name>[\w.:]+)\(-?\d+\) is not a registered function/op"),
    re.compile(r"Could not find an implementation for (?P<name>[\w.:]+)\("),
)
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


class Session:
    """A loaded graph. Calls may come from several threads at once."""

    def __init__(self, weights: Path, device: str, threads: int) -> None:
        """Load `weights` for `device`: `cpu`, `cuda` or `auto`. Raises `EngineFault`."""
        try:
            opened = open_session(weights, _options(threads), device, _CUDA_OPTIONS)
        except _FAULTS as error:
            raise EngineFault(load_sentence(str(error), weights)) from None
        self._session, self.device = opened
        self.inputs = {port.name: port.type for port in self._session.get_inputs()}
        """The type of each input, in the library's words."""

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Array]) -> list[Array]:
        """Compute these outputs, and nothing that only others need. Raises `EngineFault`."""
        options = onnxruntime.RunOptions()
        options.only_execute_path_to_fetches = True
        options.log_severity_level = _ERRORS_ONLY + 1
        try:
            results: list[Array] = self._session.run(list(outputs), dict(feeds), options)
        except _FAULTS as error:
            raise EngineFault(f"the model could not be run: {_clean(str(error))}") from None
        return results


def open_session(
    weights: Path, options: onnxruntime.SessionOptions, device: str, cuda: dict[str, str]
) -> tuple[onnxruntime.InferenceSession, str]:
    """A session of the graph `weights`, and the device where it computes, by its own account.

    `device` is `cpu`, `cuda` or `auto`; `cuda` are options of that provider. Raises `EngineFault`
    where CUDA was asked for and is not to be had, and what the library raises for a graph that it
    cannot load.
    """
    wanted = select_providers(device, onnxruntime.get_available_providers(), cuda)
    if any(name == CUDA_PROVIDER for name, _ in wanted):
        # CUDA's libraries may lie in packages beside this one, where nothing looks for them.
        onnxruntime.preload_dlls()
    session = onnxruntime.InferenceSession(weights, options, providers=wanted)
    told = device_of(device, session.get_providers())
    if isinstance(told, DeviceRefusal):
        raise EngineFault(told.sentence)
    return session, told


def load_sentence(told: str, weights: Path) -> str:
    """Why a graph could not be loaded: the operator's name where it is that, and never a path."""
    for pattern in _OPERATORS:
        if found := pattern.search(told):
            return f"{weights.name}: the engine has no operator {found['name']}"
    clean = _clean(told.replace(str(weights), weights.name))
    return f"{weights.name} cannot be loaded: {clean}"


def _clean(told: str) -> str:
    return redact_foreign(_PREFIX.sub("", told)).rstrip(" .")


def _options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    # Idle threads sleep: several models share a machine, and a spinning one takes from all.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options
