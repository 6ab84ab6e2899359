"""Reads what an ONNX graph says of one of its inputs and outputs: name, element type and shape."""

from __future__ import annotations

from dataclasses import dataclass

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.proto_cursor import ProtoCursor

DIMENSIONS_LIMIT = 64

Dims = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or an output of the graph."""

    name: str
    element_type: int = 0
    """Key of `ELEMENT_TYPES`; 0 when the graph does not say, or when it is no tensor."""
    dims: Dims | None = None
    """None for a dimension that a call decides; None altogether when the graph does not say."""

    @property
    def rank(self) -> int | None:
        """Number of dimensions, when the graph says."""
        return None if self.dims is None else len(self.dims)


def read_port(cursor: ProtoCursor, end: int) -> Port:
    """Read one input or output. Raises `HeaderFault`."""
    name = ""
    element_type, dims = 0, None
    for number, wire in cursor.fields(end):
        match number:
            case 1:
                name = cursor.text(wire, end)
            case 2:
                element_type, dims = _read_type(cursor, cursor.message(wire, end))
            case _:
                cursor.pass_over(wire, end)
    return Port(name, element_type, dims)


def _read_type(cursor: ProtoCursor, end: int) -> tuple[int, Dims | None]:
    """Element type and shape of a tensor; of what is no tensor, neither."""
    found: tuple[int, Dims | None] = (0, None)
    for number, wire in cursor.fields(end):
        if number == 1:
            found = _read_tensor_type(cursor, cursor.message(wire, end))
        else:
            cursor.pass_over(wire, end)
    return found


def _read_tensor_type(cursor: ProtoCursor, end: int) -> tuple[int, Dims | None]:
    element_type, dims = 0, None
    for number, wire in cursor.fields(end):
        match number:
            case 1:
                element_type = cursor.number(wire)
            case 2:
                dims = _read_shape(cursor, cursor.message(wire, end))
            case _:
                cursor.pass_over(wire, end)
    return element_type, dims


def _read_shape(cursor: ProtoCursor, end: int) -> Dims:
    dims: list[int | None] = []
    for number, wire in cursor.fields(end):
        if number == 1:
            dims.append(_read_dimension(cursor, cursor.message(wire, end)))
        else:
            cursor.pass_over(wire, end)
        if len(dims) > DIMENSIONS_LIMIT:
            raise no_model(f"an input or output has more than {DIMENSIONS_LIMIT} dimensions")
    return tuple(dims)


def _read_dimension(cursor: ProtoCursor, end: int) -> int | None:
    size: int | None = None
    for number, wire in cursor.fields(end):
        if number == 1:
            size = cursor.number(wire)
        else:
            cursor.pass_over(wire, end)
    # Exporters write 0 and -1 for what a call decides.
    return size if size is not None and size > 0 else None
