"""Which files make a model, what they say, and one bad folder for each refusal."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pumas_crds.engine_mode import ModeChoice, engine_mode
from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import EngineMode, Reason, Task
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.facts import read_onnx_facts
from pumas_server.worker.onnx.files import LocalFiles
from pumas_server.worker.onnx.folder import Companions, candidates, companions, locate
from support.tiny_onnx import POSITIONS, SPACE, WIDTH, TinyOnnx

SPLIT = "onnx/text_model.onnx"


def facts(root: Path, name: str) -> FileFacts:
    return read_onnx_facts(LocalFiles(root), name)


def bytes_of(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("folder", "name", "pooling", "mode"),
    [
        ("mean", "onnx/model.onnx", "mean", EngineMode.EMBED),
        ("cls", "model.onnx", "cls", EngineMode.EMBED),
        ("rerank", "model.onnx", "", EngineMode.RERANK),
        ("clip", "model.onnx", "", EngineMode.EMBED),
        ("split", SPLIT, "", EngineMode.EMBED),
    ],
)
def test_facts(folder: str, name: str, pooling: str, mode: EngineMode, tiny_onnx: TinyOnnx) -> None:
    root = tiny_onnx.root / folder
    shared = folder in ("clip", "split")
    found = facts(root, name)
    constants = found.parameters - sum(v.size for v in tiny_onnx.weights[folder].values())
    # Of the normalisation after the pooling the weights are beside the graph.
    assert abs(constants) < 2 * WIDTH + 1
    assert found == FileFacts(
        architecture="tiny_clip" if shared else "tiny",
        size_bytes=bytes_of(root),
        quantisation="FLOAT",
        parameters=found.parameters,
        context_tokens=POSITIONS,
        embedding_width=SPACE if shared else WIDTH,
        tokenizer="WordPiece",
        causal=False,
        pooling=pooling,
        ranking_head=folder == "rerank",
        input_modalities=("text", "image") if shared else ("text",),
    )
    choice = engine_mode(None, found)
    assert isinstance(choice, ModeChoice)
    assert choice.mode is mode
    task = Task.TEXT_RANKING if folder == "rerank" else Task.FEATURE_EXTRACTION
    assert isinstance(engine_mode(task, found), ModeChoice)


def test_either_half_names_both(tiny_onnx: TinyOnnx) -> None:
    root = tiny_onnx.root / "split"
    assert facts(root, "onnx/vision_model.onnx") == facts(root, SPLIT)


def test_where_a_model_is(tiny_onnx: TinyOnnx, tmp_path: Path) -> None:
    for folder, name in (("mean", "onnx/model.onnx"), ("cls", "model.onnx"), ("split", SPLIT)):
        root = tiny_onnx.root / folder
        assert locate(root) == (root, name)
        assert locate(root / name) == (root, name)
    with pytest.raises(HeaderFault, match=r"the model's folder has none of model\.onnx, onnx/"):
        locate(tmp_path)
    with pytest.raises(HeaderFault, match=r"the model's file config\.json is not there"):
        locate(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("path", "roots"),
    [
        ("model.onnx", (("", "model.onnx"),)),
        (
            "onnx/model_quantized.onnx",
            (("onnx", "model_quantized.onnx"), ("", "onnx/model_quantized.onnx")),
        ),
        ("a/b/model.onnx", (("a/b", "model.onnx"), ("a", "b/model.onnx"))),
    ],
)
def test_candidates(path: str, roots: tuple[tuple[str, str], ...]) -> None:
    assert candidates(path) == roots


def test_companions() -> None:
    assert companions("onnx/model.onnx") == Companions(
        ("config.json", "tokenizer.json"),
        (
            "tokenizer_config.json",
            "modules.json",
            "1_Pooling/config.json",
            "preprocessor_config.json",
            "onnx/model.onnx_data",
            "onnx/model.onnx.data",
        ),
    )
    assert companions("onnx/vision_model_fp16.onnx").required[-1] == "onnx/text_model_fp16.onnx"


@pytest.fixture
def copy(tiny_onnx: TinyOnnx, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a tiny model's folder, to be spoilt."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(tiny_onnx.root / name, tmp_path / name))

    return copied


def rewrite(path: Path, **more: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


def refusal(root: Path, name: str) -> tuple[Reason, str]:
    with pytest.raises(HeaderFault) as caught:
        facts(root, name)
    assert str(root) not in caught.value.message
    return caught.value.reason, caught.value.message


@pytest.mark.parametrize(
    ("folder", "name", "missing"),
    [
        ("mean", "onnx/model.onnx", "config.json"),
        ("mean", "onnx/model.onnx", "tokenizer.json"),
        ("mean", "onnx/model.onnx", "onnx/model.onnx"),
        ("mean", "onnx/model.onnx", "1_Pooling/config.json"),
        ("cls", "model.onnx", "2_LayerNorm/model.safetensors"),
        ("clip", "model.onnx", "preprocessor_config.json"),
        ("split", SPLIT, "onnx/vision_model.onnx"),
    ],
)
def test_a_file_that_is_missing_is_named(
    folder: str, name: str, missing: str, copy: Callable[[str], Path]
) -> None:
    root = copy(folder)
    (root / missing).unlink()
    reason, message = refusal(root, name)
    assert reason is Reason.NOT_A_MODEL
    shown = missing if missing.count("/") == 0 or missing in message else Path(missing).name
    assert message == f"the model's file {shown} is not there"


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


def test_files_that_are_none(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    assert "whose name ends in .onnx" in refusal(root, "config.json")[1]
    assert "whose name ends in .onnx" in refusal(root, "../mean/onnx/model.onnx")[1]
    (root / "config.json").write_text("[]")
    assert refusal(root, "onnx/model.onnx")[1] == "the model's config.json is no JSON object"
    (root / "config.json").write_text("[" * 100_000)
    assert refusal(root, "onnx/model.onnx")[1] == "the model's config.json is no JSON"
    (root / "config.json").write_bytes(b" " * ((4 << 20) + 1))
    assert (
        "config.json has 4194305 bytes; the limit is 4194304" in refusal(root, "onnx/model.onnx")[1]
    )
    (root / "config.json").unlink()
    (root / "config.json").mkdir()
    assert "config.json is not a regular file" in refusal(root, "onnx/model.onnx")[1]
    (root / "config.json").rmdir()
    os.mkfifo(root / "config.json")
    assert "config.json is not a regular file" in refusal(root, "onnx/model.onnx")[1]


def test_a_tokenizer_that_is_too_large(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    with (root / "tokenizer.json").open("r+b") as file:
        file.truncate((64 << 20) + 1)
    assert "tokenizer.json has 67108865 bytes" in refusal(root, "onnx/model.onnx")[1]


def test_weights_that_are_cut_short(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    weights = root / "onnx/model.onnx"
    weights.write_bytes(weights.read_bytes()[:-100])
    reason, message = refusal(root, "onnx/model.onnx")
    assert reason is Reason.TRUNCATED
    assert message.startswith("model.onnx: the file ends after")


def change(path: Path, edit: Callable[[onnx.ModelProto], None]) -> None:
    model = onnx.load(path)
    edit(model)
    path.write_bytes(model.SerializeToString())


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


def test_weights_in_a_further_file(copy: Callable[[str], Path]) -> None:
    root = copy("mean")
    path = root / "onnx/model.onnx"
    whole = facts(root, "onnx/model.onnx")
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    further = root / "onnx/model.onnx_data"
    found = facts(root, "onnx/model.onnx")
    assert found.parameters == whole.parameters
    assert found.size_bytes == bytes_of(root)
    further.write_bytes(further.read_bytes()[:-1])
    reason, message = refusal(root, "onnx/model.onnx")
    assert reason is Reason.TRUNCATED
    assert message.startswith("the model's model.onnx_data has ")
    further.unlink()
    assert refusal(root, "onnx/model.onnx")[1] == "the model's file model.onnx_data is not there"


@pytest.mark.parametrize(
    ("config", "limit", "tokens"),
    [
        ({}, 512, POSITIONS),
        ({"max_position_embeddings": 514, "pad_token_id": 1}, 512, 512),
        ({"max_position_embeddings": 514, "pad_token_id": 1}, 128, 514),
        ({"max_position_embeddings": 512, "pad_token_id": 0}, 10**30, 512),
        ({"max_position_embeddings": None, "n_positions": 256}, None, 256),
        ({"max_position_embeddings": None}, 77, 77),
        ({"max_position_embeddings": None}, None, 0),
        ({"max_position_embeddings": -5}, None, 0),
        ({"max_position_embeddings": True}, None, 0),
    ],
)
def test_tokens_of_one_input(
    config: dict[str, Any], limit: int | None, tokens: int, copy: Callable[[str], Path]
) -> None:
    root = copy("mean")
    rewrite(root / "config.json", **config)
    if limit is not None:
        (root / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
    assert facts(root, "onnx/model.onnx").context_tokens == tokens


def test_without_a_description_of_the_chain(copy: Callable[[str], Path]) -> None:
    root = copy("cls")
    (root / "modules.json").unlink()
    assert facts(root, "model.onnx").pooling == "cls"
    shutil.rmtree(root / "1_Pooling")
    assert facts(root, "model.onnx").pooling == ""


def test_quantised_weights(copy: Callable[[str], Path]) -> None:
    root = copy("mean")

    def quantise(model: Any) -> None:
        import numpy as np

        model.graph.initializer.append(numpy_helper.from_array(np.zeros(9999, np.int8), "q"))

    change(root / "onnx/model.onnx", quantise)
    assert facts(root, "onnx/model.onnx").quantisation == "INT8"
