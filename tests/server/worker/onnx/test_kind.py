"""A graph that this engine cannot use is refused by the name of what stands against it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from support.spoilt_onnx import change, facts, refusal

SPLIT = "onnx/text_model.onnx"


def _input(name: str, kind: int = TensorProto.INT64, *shape: Any) -> Callable[[Any], None]:
    return lambda model: model.graph.input.append(
        helper.make_tensor_value_info(name, kind, shape or ("batch", "sequence"))
    )


def _typed(kind: int) -> Callable[[Any], None]:
    return lambda model: setattr(model.graph.input[0].type.tensor_type, "elem_type", kind)


def _fixed(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 128


def _operator(model: Any) -> None:
    model.graph.node.append(helper.make_node("Fancy", [], ["f"], domain="com.example"))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            _input("past_key_values.0.key"),
            "the input past_key_values.0.key, which this engine does not feed",
        ),
        (
            _input("token_type_ids\n"),
            "the input token_type_ids\ufffd, which this engine does not feed",
        ),
        (_typed(TensorProto.FLOAT), "the model's input input_ids has the type FLOAT"),
        (
            _input("position_ids", TensorProto.INT64, 3, "b", "s"),
            "position_ids has 3 dimensions, not 2",
        ),
        (_fixed, "the model's input input_ids has a fixed shape"),
        (
            _operator,
            "the model uses the operator com.example:Fancy, which this engine does not have",
        ),
        (lambda model: model.graph.input.pop(0), "the model has no input input_ids"),
        (lambda model: model.graph.output.pop(), "the model's outputs (none) are neither"),
    ],
)
def test_graphs_that_cannot_be_fed(
    edit: Callable[[Any], None], message: str, copy: Callable[[str], Path]
) -> None:
    root = copy("mean")
    change(root / "onnx/model.onnx", edit)
    assert message in refusal(root, "onnx/model.onnx")[1]


def test_one_side_of_a_shared_space_alone(copy: Callable[[str], Path]) -> None:
    root = copy("split")
    shutil.copy(root / "onnx/vision_model.onnx", root / "model.onnx")
    assert (
        refusal(root, "model.onnx")[1] == "the model has no input input_ids: it takes images alone"
    )
    shutil.copy(root / "onnx/text_model.onnx", root / "onnx/vision_model.onnx")
    change(root / "onnx/vision_model.onnx", _input("pixel_values", TensorProto.FLOAT, "b", 3, 8, 8))
    assert "has no output image_embeds; its outputs are text_embeds" in refusal(root, SPLIT)[1]


def test_a_domain_that_the_file_defines_itself_is_known(copy: Callable[[str], Path]) -> None:
    root = copy("mean")

    def define(model: Any) -> None:
        _operator(model)
        model.functions.append(helper.make_function("com.example", "Fancy", [], ["f"], [], []))

    change(root / "onnx/model.onnx", define)
    assert facts(root, "onnx/model.onnx").pooling == "mean"
