"""Reads the weights of a layer normalisation from its module's safetensors file.

The file is a stranger's and holds two short vectors: an 8-byte length, a JSON object that tells
type, shape and place of each tensor, and their bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson

from pumas_server.worker.header_fault import HeaderFault, no_model
from pumas_server.worker.onnx.description import member
from pumas_server.worker.onnx.pooling import Floats, LayerNorm

FILE_BYTES_LIMIT = 4 << 20
_LENGTH_BYTES = 8
_WEIGHT = "norm.weight"
_BIAS = "norm.bias"


def fetch_layer_norm(path: Path, width: int) -> LayerNorm:
    """The normalisation for vectors of `width` values. Raises `HeaderFault`, `OSError`."""
    with path.open("rb") as file:
        data = file.read(FILE_BYTES_LIMIT + 1)
    return read_layer_norm(data, width)


def read_layer_norm(data: bytes, width: int) -> LayerNorm:
    """The normalisation that the bytes of the file hold. Raises `HeaderFault`."""
    if len(data) > FILE_BYTES_LIMIT:
        raise no_model(f"the layer norm's weights have more than {FILE_BYTES_LIMIT} bytes")
    begin = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    if begin > len(data):
        raise _malformed()
    try:
        header: object = orjson.loads(data[_LENGTH_BYTES:begin])
    except orjson.JSONDecodeError:
        raise _malformed() from None
    return LayerNorm(
        _vector(header, data[begin:], _WEIGHT, width), _vector(header, data[begin:], _BIAS, width)
    )


def _vector(header: object, data: bytes, name: str, width: int) -> Floats:
    match member(header, name, "data_offsets"):
        case [int(begin), int(end)] if 0 <= begin <= end <= len(data):
            stored = data[begin:end]
        case _:
            raise _malformed()
    shape = member(header, name, "shape")
    if member(header, name, "dtype") != "F32" or shape != [width] or len(stored) != 4 * width:
        raise no_model(f"the layer norm's {name} is no vector of {width} 32-bit numbers")
    return np.frombuffer(stored, "<f4").astype(np.float32)


def _malformed() -> HeaderFault:
    return no_model("the layer norm's weights are no safetensors file with norm.weight, norm.bias")
