"""Reads members of a model's JSON files: objects and lists of a stranger, of any shape.

A member of another type than it should have is one that is not there: a config is read by many
programs, and each of them writes more into it.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.files import Files

#: A config with the labels of a large classifier stays far below.
DESCRIPTION_BYTES_LIMIT = 4 << 20
COUNT_LIMIT = 1 << 32

Description = Mapping[str, object]


def read_description(files: Files, name: str) -> tuple[object, int] | None:
    """The JSON of a file and its size in bytes; None when the file is not there.

    Raises `HeaderFault` for what is no JSON, is nested too deeply, or is too large.
    """
    data = files.read(name, DESCRIPTION_BYTES_LIMIT)
    if data is None:
        return None
    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise no_model(f"the model's {name} is no JSON") from None
    return value, len(data)


def as_object(value: object, name: str) -> Description:
    """The object that the file `name` has to hold. Raises `HeaderFault`."""
    if not isinstance(value, dict):
        raise no_model(f"the model's {name} is no JSON object")
    return value


def member(value: object, *path: str) -> object:
    """The member of nested objects at `path`; None when any of them is not there."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def count(value: object) -> int:
    """A count in 32 bits; 0 for anything else."""
    return value if type(value) is int and 0 <= value < COUNT_LIMIT else 0


def text(value: object) -> str:
    """A string; empty for anything else."""
    return value if isinstance(value, str) else ""


def fraction(value: object) -> float | None:
    """A finite number; None for anything else."""
    if type(value) not in (int, float):
        return None
    assert isinstance(value, int | float)
    return float(value) if abs(value) < 1e30 else None
