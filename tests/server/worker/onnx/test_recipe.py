"""A chain of modules is followed as far as it is computed, and refused by the name of the rest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pumas_server.worker.onnx.folder import locate
from support.spoilt_onnx import facts, refusal, rewrite


@pytest.mark.parametrize(
    ("folder", "file", "more", "message"),
    [
        (
            "mean",
            "1_Pooling/config.json",
            {"pooling_mode_max_tokens": True},
            "pooling_mode_max_tokens; one of",
        ),
        (
            "mean",
            "1_Pooling/config.json",
            {"pooling_mode_mean_tokens": False},
            "chooses no pooling",
        ),
        (
            "mean",
            "1_Pooling/config.json",
            {"pooling_mode": "weightedmean"},
            "pooling is weightedmean",
        ),
        (
            "rerank",
            "config.json",
            {"id2label": {"0": "a", "1": "b"}},
            "outputs (logits) are neither vectors nor",
        ),
        ("rerank", "config.json", {"architectures": ["TinyModel"]}, "outputs (logits) are neither"),
        ("clip", "preprocessor_config.json", {"resample": 9}, "names no resample filter"),
        ("clip", "preprocessor_config.json", {"crop_size": 5000}, "not of 1 to 4096 pixels"),
        (
            "clip",
            "preprocessor_config.json",
            {"size": {"longest_edge": 8}},
            "not of 1 to 4096 pixels",
        ),
        (
            "clip",
            "preprocessor_config.json",
            {"image_mean": [1, 2]},
            "no three numbers as image_mean",
        ),
        ("clip", "preprocessor_config.json", {"image_std": [1, 0, 1]}, "image_std of zero"),
        (
            "clip",
            "preprocessor_config.json",
            {"do_center_crop": False},
            "leaves images of different sizes",
        ),
    ],
)
def test_a_config_that_says_what_is_not_done(
    folder: str, file: str, more: dict[str, Any], message: str, copy: Callable[[str], Path]
) -> None:
    root = copy(folder)
    rewrite(root / file, **more)
    assert message in refusal(root, locate(root)[1])[1]


def modules(*kinds: str, path: str = "") -> str:
    prefix = "sentence_transformers.models."
    paths = ["", "1_Pooling", "2_LayerNorm", "3"]
    return json.dumps(
        [{"type": prefix + kind, "path": path or paths[n]} for n, kind in enumerate(kinds)]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "the model's modules.json is no JSON"),
        ("{}", "modules.json is no list of 1 to 16 modules"),
        (
            modules("Transformer", "Pooling", "Dense"),
            "module 2 of the model is Dense, which this engine",
        ),
        (modules("Transformer", "WordWeights"), "module 1 of the model is WordWeights"),
        (
            modules("Transformer", "Pooling", "Normalize", "LayerNorm"),
            "module 2 of the model is Normalize",
        ),
        (modules("CLIPModel"), "module 0 of the model is CLIPModel"),
        (modules("Transformer", "Pooling", path="../up"), "module 0 of the model is Transformer"),
        (
            '[{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": "/etc"}]',
            "outside the model's folder",
        ),
    ],
)
def test_modules_that_are_not_followed(
    text: str, message: str, copy: Callable[[str], Path]
) -> None:
    root = copy("mean")
    (root / "modules.json").write_text(text)
    assert message in refusal(root, "onnx/model.onnx")[1]


def test_without_a_description_of_the_chain(copy: Callable[[str], Path]) -> None:
    root = copy("cls")
    (root / "modules.json").unlink()
    assert facts(root, "model.onnx").pooling == "cls"
    shutil.rmtree(root / "1_Pooling")
    assert facts(root, "model.onnx").pooling == ""
