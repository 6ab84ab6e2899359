"""Reads what an ONNX file says of its graph: a hand-written walk that holds no tensor's data.

The bytes are a stranger's. Fields, names, nesting and shapes are bounded before anything is kept,
all arithmetic is on Python's unbounded integers, and of a tensor only its type and size are kept.
So a hostile file costs bounded time and memory, and ends in a `HeaderFault`, never in another
exception. Unknown fields are passed over, as the format demands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.legible import legible
from pumas_server.worker.onnx.element_types import type_name
from pumas_server.worker.onnx.port import Port, read_port
from pumas_server.worker.onnx.proto_cursor import ProtoCursor, Reader
from pumas_server.worker.onnx.tensor import Tensor, read_tensor

PORTS_LIMIT = 65_536
OPERATORS_LIMIT = 4096
FUNCTIONS_LIMIT = 4096
OPSETS_LIMIT = 256
TENSORS_LIMIT = 1 << 20
EXTERNAL_FILES_LIMIT = 1024
#: Graphs within attributes within graphs: loops in branches, never many.
DEPTH_LIMIT = 32
INTEGER_LIMIT = (1 << 63) - 1
SHOWN = 80


@dataclass(frozen=True, slots=True, order=True)
class Operator:
    """What a node does: an operator of a domain, `""` being the standard's own."""

    domain: str
    name: str

    def __str__(self) -> str:
        return legible(f"{self.domain}:{self.name}" if self.domain else self.name, SHOWN)


@dataclass(frozen=True, slots=True)
class Graph:
    """What a file says."""

    inputs: tuple[Port, ...]
    """What a call has to give: without the inputs that have initial values."""
    outputs: tuple[Port, ...]
    operators: frozenset[Operator]
    """Of all nodes: in subgraphs and local functions too."""
    functions: frozenset[Operator]
    """Operators that the file defines itself."""
    opsets: Mapping[str, int]
    elements: Mapping[int, int]
    """How many weights there are of each element type."""
    external: Mapping[str, int]
    """Further files of tensors, by name beside this one, with the bytes each has to have."""

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(self.elements.values())

    @property
    def quantisation(self) -> str:
        """Type of most of the weights; empty when there are none."""
        most = max(self.elements.items(), key=lambda item: item[1], default=None)
        return type_name(most[0]) if most and most[1] else ""


@dataclass(slots=True)
class _Found:
    """What the walk has seen so far, in all graphs of the file."""

    operators: set[Operator] = field(default_factory=set)
    functions: set[Operator] = field(default_factory=set)
    opsets: dict[str, int] = field(default_factory=dict)
    elements: Counter[int] = field(default_factory=Counter)
    external: dict[str, int] = field(default_factory=dict)
    tensors: int = 0

    def keep(self, tensor: Tensor) -> None:
        self.tensors += 1
        if self.tensors > TENSORS_LIMIT:
            raise no_model(f"the file has more than {TENSORS_LIMIT} tensors")
        self.elements[tensor.type_id] += tensor.elements
        if self.elements[tensor.type_id] > INTEGER_LIMIT:
            raise no_model("its tensors claim more weights than can be counted")
        if tensor.location is not None:
            end = max(tensor.external_end, self.external.get(tensor.location, 0))
            self.external[tensor.location] = end
            _check_count(self.external, "further files", EXTERNAL_FILES_LIMIT)


@dataclass(slots=True)
class _Ports:
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    initialised: set[str] = field(default_factory=set)


def read_graph(reader: Reader) -> Graph:
    """Read the graph of an ONNX file.

    Raises `HeaderFault`: `NOT_A_MODEL` for what is no ONNX file or breaks its rules, `TRUNCATED`
    when the file ends before what it promises.
    """
    cursor = ProtoCursor(reader)
    found = _Found()
    ports: _Ports | None = None
    for number, wire in cursor.fields(cursor.end):
        match number:
            case 7:
                if ports is not None:
                    raise no_model("the file has two graphs")
                ports = _read_graph(cursor, cursor.message(wire, cursor.end), found, 0)
            case 8:
                _read_opset(cursor, cursor.message(wire, cursor.end), found)
            case 25:
                _read_function(cursor, cursor.message(wire, cursor.end), found)
            case _:
                cursor.pass_over(wire, cursor.end)
    if ports is None:
        raise no_model("the file is no ONNX model: it has no graph")
    return Graph(
        inputs=tuple(port for port in ports.inputs if port.name not in ports.initialised),
        outputs=tuple(ports.outputs),
        operators=frozenset(found.operators),
        functions=frozenset(found.functions),
        opsets=found.opsets,
        elements=dict(found.elements),
        external=found.external,
    )


def _read_opset(cursor: ProtoCursor, end: int, found: _Found) -> None:
    domain, version = "", 0
    for number, wire in cursor.fields(end):
        match number:
            case 1:
                domain = cursor.text(wire, end)
            case 2:
                version = cursor.number(wire)
            case _:
                cursor.pass_over(wire, end)
    found.opsets[domain] = version
    _check_count(found.opsets, "operator sets", OPSETS_LIMIT)


def _read_function(cursor: ProtoCursor, end: int, found: _Found) -> None:
    name = domain = ""
    for number, wire in cursor.fields(end):
        match number:
            case 1:
                name = cursor.text(wire, end)
            case 7:
                _read_node(cursor, cursor.message(wire, end), found, 0)
            case 10:
                domain = cursor.text(wire, end)
            case _:
                cursor.pass_over(wire, end)
    found.functions.add(Operator(domain, name))
    _check_count(found.functions, "functions", FUNCTIONS_LIMIT)


def _read_graph(cursor: ProtoCursor, end: int, found: _Found, depth: int) -> _Ports:
    if depth > DEPTH_LIMIT:
        raise no_model(f"graphs are nested more than {DEPTH_LIMIT} deep")
    ports = _Ports()
    for number, wire in cursor.fields(end):
        match number:
            case 1:
                _read_node(cursor, cursor.message(wire, end), found, depth)
            case 5:
                tensor = read_tensor(cursor, cursor.message(wire, end))
                found.keep(tensor)
                ports.initialised.add(tensor.name)
            case 11:
                ports.inputs.append(read_port(cursor, cursor.message(wire, end)))
                _check_count(ports.inputs, "inputs", PORTS_LIMIT)
            case 12:
                ports.outputs.append(read_port(cursor, cursor.message(wire, end)))
                _check_count(ports.outputs, "outputs", PORTS_LIMIT)
            case 15:
                tensor = _read_sparse(cursor, cursor.message(wire, end), found)
                ports.initialised.add(tensor.name)
            case _:
                cursor.pass_over(wire, end)
    return ports


def _read_sparse(cursor: ProtoCursor, end: int, found: _Found) -> Tensor:
    """A tensor of which only the values that are not zero are there; it is named by these."""
    values = Tensor("", 0, 0)
    for number, wire in cursor.fields(end):
        match number:
            case 1:
                values = read_tensor(cursor, cursor.message(wire, end))
                found.keep(values)
            case 2:
                found.keep(read_tensor(cursor, cursor.message(wire, end)))
            case _:
                cursor.pass_over(wire, end)
    return values


def _read_node(cursor: ProtoCursor, end: int, found: _Found, depth: int) -> None:
    name = domain = ""
    for number, wire in cursor.fields(end):
        match number:
            case 4:
                name = cursor.text(wire, end)
            case 5:
                _read_attribute(cursor, cursor.message(wire, end), found, depth)
            case 7:
                domain = cursor.text(wire, end)
            case _:
                cursor.pass_over(wire, end)
    found.operators.add(Operator(domain, name))
    _check_count(found.operators, "different operators", OPERATORS_LIMIT)


def _read_attribute(cursor: ProtoCursor, end: int, found: _Found, depth: int) -> None:
    for number, wire in cursor.fields(end):
        match number:
            case 5 | 10:
                found.keep(read_tensor(cursor, cursor.message(wire, end)))
            case 6 | 11:
                _read_graph(cursor, cursor.message(wire, end), found, depth + 1)
            case 22 | 23:
                _read_sparse(cursor, cursor.message(wire, end), found)
            case _:
                cursor.pass_over(wire, end)


def _check_count(things: Sized, what: str, limit: int) -> None:
    if len(things) > limit:
        raise no_model(f"the file has more than {limit} {what}")
