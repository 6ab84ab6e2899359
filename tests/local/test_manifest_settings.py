"""Settings that belong to another runtime are refused where the manifest is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pumas_local.manifest_files import ManifestError, read_manifests
from support.serve import manifest

ONNX = {"runtime": "onnxruntime"}
ENGINE = "engine takes, beside parallel, with runtime onnxruntime device, steps and"


def written(folder: Path, spec: dict[str, Any]) -> Path:
    file = folder / "m.yaml"
    file.write_text(json.dumps(manifest("m", **{"source": {"path": "m"}} | spec)))
    return file


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ONNX | {"engine": {"contextTokens": 512}}, ENGINE),
        (ONNX | {"engine": {"gpuLayers": 1, "device": "cpu"}}, ENGINE),
        (ONNX | {"engine": {"extraArgs": ["--swa-full"]}}, ENGINE),
        ({"engine": {"device": "cpu"}}, ENGINE),
        ({"engine": {"steps": 4}}, ENGINE),
        ({"engine": {"guidancePercent": 100}}, ENGINE),
        (ONNX | {"projector": {"path": "p"}}, "projector"),
        (ONNX | {"engine": {"device": "tpu"}}, "device"),
        (ONNX | {"engine": {"steps": 0}}, "steps"),
    ],
)
def test_refused(tmp_path: Path, spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read_manifests([written(tmp_path, spec)])
    assert words in refused.value.sentence


@pytest.mark.parametrize(
    "spec",
    [
        ONNX | {"engine": {"device": "auto", "parallel": 2}},
        ONNX | {"engine": {"steps": 1000, "guidancePercent": 0}},
        {"engine": {"contextTokens": 512, "parallel": 2}},
    ],
)
def test_taken(tmp_path: Path, spec: dict[str, Any]) -> None:
    (model,) = read_manifests([written(tmp_path, spec)]).models
    assert model.spec.engine is not None
