"""Folders of ONNX models, changed so that something in them is not what it should be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.facts import read_onnx_facts
from pumas_server.worker.onnx.files import LocalFiles


def facts(root: Path, name: str) -> FileFacts:
    return read_onnx_facts(LocalFiles(root), name)


def rewrite(path: Path, **more: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


def refusal(root: Path, name: str) -> tuple[Reason, str]:
    with pytest.raises(HeaderFault) as caught:
        facts(root, name)
    assert str(root) not in caught.value.message
    return caught.value.reason, caught.value.message


def change(path: Path, edit: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load(path)
    edit(model)
    path.write_bytes(model.SerializeToString())
