"""Which folder of a node a model needs: never more than what holds its files."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.vocabulary import Runtime
from pumas_operator.host_folder import host_folder

GGUF, ONNX = Runtime.LLAMA_CPP, Runtime.ONNX_RUNTIME


@pytest.mark.parametrize(
    ("path", "runtime", "folder"),
    [
        ("/srv/m.gguf", GGUF, "/srv"),
        ("/m.gguf", GGUF, "/"),
        ("/srv/m", ONNX, "/srv/m"),
        ("/srv/m/", ONNX, "/srv/m"),
        ("/srv/m/model.onnx", ONNX, "/srv/m"),
        ("/srv/m/onnx/model.onnx", ONNX, "/srv/m"),
        # Only a graph lies in such a folder: a folder of that name may be the model.
        ("/srv/onnx", ONNX, "/srv/onnx"),
        ("/srv/m/onnx/q8/model.onnx", ONNX, "/srv/m/onnx/q8"),
        ("/model.onnx", ONNX, "/"),
        ("/onnx/model.onnx", ONNX, "/"),
        # Its graph's name says nothing of a file of the other runtime.
        ("/srv/m/onnx/model.onnx", GGUF, "/srv/m/onnx"),
    ],
)
def test_the_folder(path: str, runtime: Runtime, folder: str) -> None:
    assert host_folder(path, runtime) == folder


_names = st.sampled_from(["srv", "onnx", "m", "model.onnx", "x.gguf"])


@given(names=st.lists(_names, min_size=1, max_size=5), runtime=st.sampled_from(Runtime))
def test_it_holds_what_was_named_and_is_at_most_two_above(
    names: list[str], runtime: Runtime
) -> None:
    path = "/" + "/".join(names)
    asked, folder = PurePosixPath(path), PurePosixPath(host_folder(path, runtime))
    assert asked.is_relative_to(folder)
    assert len(asked.parts) - len(folder.parts) <= 2
