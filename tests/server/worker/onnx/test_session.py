"""What the library says of a graph that it cannot load or run becomes one clean sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pumas_server.worker.onnx.fault import EngineFault
from pumas_server.worker.onnx.session import Session


def save(path: Path, node: onnx.NodeProto, *domains: str) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3, 2], [0.0] * 6)
    graph = helper.make_graph([node], "g", [x], [y], [weight])
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(name, 1) for name in domains)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("name", "domain", "told"),
    [("NoSuch", "", "NoSuch"), ("NoSuch", "com.microsoft", "com.microsoft:NoSuch")],
)
def test_an_operator_that_is_not_there_is_named(
    name: str, domain: str, told: str, tmp_path: Path
) -> None:
    node = helper.make_node(name, ["x"], ["y"], domain=domain)
    path = save(tmp_path / "model.onnx", node, *([domain] if domain else []))
    with pytest.raises(EngineFault) as caught:
        Session(path, "cpu", 1)
    assert str(caught.value) == f"model.onnx: the engine has no operator {told}"


def test_a_file_that_is_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no graph at all")
    with pytest.raises(EngineFault, match=r"^model\.onnx cannot be loaded: ") as caught:
        Session(path, "cpu", 1)
    assert str(tmp_path) not in str(caught.value)


def test_a_call_that_cannot_be_run(tmp_path: Path) -> None:
    # The shapes do not fit, which only a call shows.
    node = helper.make_node("Concat", ["x", "w"], ["y"], axis=1)
    session = Session(save(tmp_path / "model.onnx", node), "cpu", 1)
    assert (session.device, session.inputs) == ("cpu", {"x": "tensor(float)"})
    (y,) = session.run(["y"], {"x": np.ones((3, 2), np.float32)})
    assert y.shape == (3, 4)
    with pytest.raises(EngineFault, match=r"^the model could not be run: .*Concat"):
        session.run(["y"], {"x": np.ones((2, 2), np.float32)})
