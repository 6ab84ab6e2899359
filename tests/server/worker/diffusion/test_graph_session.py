"""Graphs in ONNX Runtime: what is read of them, and what cannot be loaded."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import pumas_server.worker.diffusion
from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.graph_session import open_graph
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.fault import EngineFault

NAME = "unet/model.onnx"


def write(root: Path, kind: int = TensorProto.FLOAT, operator: str = "Add", **saving: bool) -> None:
    weight = numpy_helper.from_array(np.full(300, 2.0, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", kind, ("n", 300))],
        [helper.make_tensor_value_info("y", kind, ("n", 300))],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (root / "unet").mkdir(exist_ok=True)
    onnx.save(model, root / NAME, **saving)


def test_a_graph_says_what_it_takes_and_gives(tmp_path: Path) -> None:
    write(tmp_path)
    graph = open_graph(tmp_path, NAME, "cpu", 1)
    assert (graph.name, graph.outputs, graph.device) == (NAME, ("y",), "cpu")
    assert graph.inputs["x"].dtype == np.float32
    assert graph.inputs["x"].shape == (None, 300)
    (result,) = graph.run({"x": np.ones((2, 300), np.float32)})
    np.testing.assert_array_equal(result, np.full((2, 300), 3.0))


def test_a_device_that_is_not_to_be_had_is_not_claimed(tmp_path: Path) -> None:
    write(tmp_path)
    there = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    assert open_graph(tmp_path, NAME, "auto", 1).device == ("cuda" if there else "cpu")


def test_who_asks_for_cuda_is_not_served_by_the_cpu_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(EngineFault, match="CUDA was asked for"):
        open_graph(tmp_path, NAME, "cuda", 1)


def test_the_convolutions_of_a_device_are_chosen_by_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    cuda, cpu = "CUDAExecutionProvider", "CPUExecutionProvider"
    real, asked = onnxruntime.InferenceSession, []

    def on_the_cpu(graph: Path, options: object, providers: list[tuple[str, object]]) -> object:
        asked.extend(providers)
        return real(graph, options, providers=[cpu])

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [cuda, cpu])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    monkeypatch.setattr(onnxruntime, "InferenceSession", on_the_cpu)
    assert open_graph(tmp_path, NAME, "auto", 1).device == "cpu"
    assert asked == [(cuda, {"cudnn_conv_algo_search": "HEURISTIC"}), (cpu, {})]


def test_weights_beside_the_graph_are_found(tmp_path: Path) -> None:
    write(tmp_path, save_as_external_data=True)
    onnx_data = [path.name for path in (tmp_path / "unet").iterdir() if path.suffix != ".onnx"]
    assert len(onnx_data) == 1
    (result,) = open_graph(tmp_path, NAME, "cpu", 1).run({"x": np.zeros((1, 300), np.float32)})
    assert (result == 2.0).all()
    (tmp_path / "unet" / onnx_data[0]).unlink()
    with pytest.raises(HeaderFault, match=f"^ONNX Runtime cannot load {NAME} "):
        open_graph(tmp_path, NAME, "cpu", 1)


@pytest.mark.parametrize("data", [b"", b"\x00" * 64, b"not a graph at all", None])
def test_what_is_no_graph_is_refused_without_a_path(data: bytes | None, tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    if data is not None:
        (tmp_path / NAME).write_bytes(data)
    with pytest.raises(HeaderFault) as caught:
        open_graph(tmp_path, NAME, "cpu", 1)
    assert caught.value.reason is Reason.NOT_A_MODEL
    assert caught.value.message.startswith(f"ONNX Runtime cannot load {NAME} (")
    assert str(tmp_path) not in caught.value.message


def test_an_operator_that_is_not_known_is_refused(tmp_path: Path) -> None:
    write(tmp_path, operator="NoSuchOperator")
    with pytest.raises(HeaderFault, match=f"^ONNX Runtime cannot load {NAME} "):
        open_graph(tmp_path, NAME, "cpu", 1)


def test_an_input_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Not", ["x"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.BOOL, (1,))],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, (1,))],
    )
    (tmp_path / "unet").mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / NAME)
    with pytest.raises(HeaderFault) as caught:
        open_graph(tmp_path, NAME, "cpu", 1)
    assert caught.value.message == f"{NAME}: the input x has the type tensor(bool)"
    assert caught.value.reason is Reason.NOT_IMPLEMENTED


def test_one_module_imports_the_runtime() -> None:
    (folder,) = pumas_server.worker.diffusion.__path__
    importing = set()
    for path in Path(folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import) and any("onnxruntime" in a.name for a in node.names):
                importing.add(path.name)
            if isinstance(node, ast.ImportFrom) and "onnxruntime" in (node.module or ""):
                importing.add(path.name)
    assert importing == {"graph_session.py"}
