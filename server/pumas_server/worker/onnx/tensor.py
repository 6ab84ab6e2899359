"""Reads what an ONNX tensor says of itself: type, size and where its data lies, never the data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.legible import legible
from pumas_server.worker.onnx.element_types import stored_bytes, type_name
from pumas_server.worker.onnx.proto_cursor import ProtoCursor, Wire

DIMENSIONS_LIMIT = 64
ENTRIES_LIMIT = 16
NAME_LIMIT = 255
INTEGER_LIMIT = (1 << 63) - 1
SHOWN = 80
_EXTERNAL = 1
#: One part of a file's name: no way up, no root, no drive, and none of the marks that the engine's
#: library reads as an address in memory.
_PART = re.compile(r"[\w][\w.+ -]*")


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor."""

    name: str
    type_id: int
    elements: int
    location: str | None = None
    """The file that has its data, by name beside the model's own; None: the model itself."""
    external_end: int = 0
    """Bytes that this file must have for it."""


def is_plain_name(name: str) -> bool:
    """Whether a name leads to a file below the folder that it is looked up in, and nowhere else."""
    return len(name) <= NAME_LIMIT and all(map(_PART.fullmatch, name.split("/")))


def read_tensor(cursor: ProtoCursor, end: int) -> Tensor:
    """Read one tensor and pass over its data. Raises `HeaderFault`."""
    name = ""
    type_id = location = 0
    dims: list[int] = []
    raw: int | None = None
    entries: dict[str, str] = {}
    for number, wire in cursor.fields(end):
        match number:
            case 1:
                _read_dims(cursor, wire, end, dims)
            case 2:
                type_id = cursor.number(wire)
            case 8:
                name = cursor.text(wire, end)
            case 9:
                raw = cursor.pass_over(wire, end)
            case 13:
                key, value = _read_entry(cursor, cursor.message(wire, end))
                entries[key] = value
                if len(entries) > ENTRIES_LIMIT:
                    raise no_model(f"a tensor has more than {ENTRIES_LIMIT} notes on its data")
            case 14:
                location = cursor.number(wire)
            case _:
                cursor.pass_over(wire, end)
    shown = legible(name, SHOWN)
    if any(size < 0 for size in dims) or (elements := prod(dims)) > INTEGER_LIMIT:
        raise no_model(f"the tensor {shown} has the impossible shape {tuple(dims)}")
    needed = stored_bytes(type_id, elements)
    if location == _EXTERNAL:
        return Tensor(name, type_id, elements, *_read_place(shown, entries, needed))
    if raw is not None and needed is not None and raw != needed:
        raise no_model(
            f"the tensor {shown} has {raw} bytes of data;"
            f" {elements} elements of type {type_name(type_id)} need {needed}"
        )
    return Tensor(name, type_id, elements)


def _read_dims(cursor: ProtoCursor, wire: Wire, end: int, dims: list[int]) -> None:
    """One dimension, or all of them in one field: both encodings are allowed."""
    if wire is Wire.BYTES:
        inner = cursor.message(wire, end)
        while cursor.at < inner and len(dims) <= DIMENSIONS_LIMIT:
            dims.append(cursor.number(Wire.VARINT))
        if cursor.at > inner:
            raise no_model("a field of the file is longer than the message it is in")
    else:
        dims.append(cursor.number(wire))
    if len(dims) > DIMENSIONS_LIMIT:
        raise no_model(f"a tensor has more than {DIMENSIONS_LIMIT} dimensions")


def _read_entry(cursor: ProtoCursor, end: int) -> tuple[str, str]:
    key = value = ""
    for number, wire in cursor.fields(end):
        match number:
            case 1:
                key = cursor.text(wire, end)
            case 2:
                value = cursor.text(wire, end)
            case _:
                cursor.pass_over(wire, end)
    return key, value


def _read_place(shown: str, entries: dict[str, str], needed: int | None) -> tuple[str, int]:
    """The file of a tensor's data, and the bytes that it must have."""
    file = entries.get("location", "").removeprefix("./")
    if not is_plain_name(file):
        raise no_model(
            f"the data of the tensor {shown} lies at {legible(file, SHOWN)!r},"
            " which is no file in the model's folder"
        )
    offset = _number(shown, entries.get("offset", "0"))
    length = _number(shown, entries.get("length", str(needed or 0)))
    if needed is not None and length != needed:
        raise no_model(f"the tensor {shown} has {length} bytes of data; its shape needs {needed}")
    return file, offset + length


def _number(shown: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise no_model(f"the place of the tensor {shown} is given as {legible(text, 20)!r}")
    return int(text)
