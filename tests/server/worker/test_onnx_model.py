"""What an ONNX model is, the same for its folder, a file of it, and a server that has it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx_model import (
    fetch_remote_facts,
    find_root,
    pipeline_root,
    read_local,
    weights_of,
)
from support.folder_server import FolderServer, folder_server

NAMED = {
    "mean": "onnx/model.onnx",
    "cls": "model.onnx",
    "rerank": "model.onnx",
    "clip": "model.onnx",
    "split": "onnx/text_model.onnx",
    "pipeline": "model_index.json",
}


def http(server: FolderServer, name: str, query: str = "") -> Source:
    return Source.model_validate({"http": {"url": server.url + name + query}})


def with_external_data(folder: Path, location: str, megabytes: int = 0) -> Path:
    """Put the tensors of a graph into a file beside it, and a large one to them."""
    (path,) = folder.rglob("*.onnx")
    model = onnx.load(path)
    if megabytes:
        large = np.zeros(megabytes << 18, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(large, "large"))
    if location:
        onnx.save(
            model,
            path,
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location=location,
            size_threshold=0,
        )
    else:
        onnx.save(model, path)
    return path


@pytest.mark.parametrize("model", NAMED)
def test_a_folder_and_its_named_file_are_one_model(onnx_models: Path, model: str) -> None:
    folder, named = onnx_models / model, onnx_models / model / NAMED[model]
    facts = read_local(folder)
    assert facts == read_local(named)
    assert facts.format == "onnx"
    assert facts.input_modalities == (
        ("text", "image") if model in ("clip", "split") else ("text",)
    )
    assert facts.pipeline == ("StableDiffusionPipeline" if model == "pipeline" else None)
    assert facts.ranking_head == (model == "rerank")
    assert weights_of(folder) == weights_of(named) == (None if model == "pipeline" else named)


def test_the_digest_is_of_the_graph_that_is_named(onnx_models: Path) -> None:
    vision = onnx_models / "split/onnx/vision_model.onnx"
    assert weights_of(vision) == vision
    assert read_local(vision) == read_local(onnx_models / "split")


def test_the_root_of_a_pipeline(onnx_models: Path) -> None:
    folder = onnx_models / "pipeline"
    assert pipeline_root(folder) == pipeline_root(folder / "model_index.json") == folder


def test_a_pipeline_is_its_graphs_together(onnx_models: Path, tmp_path: Path) -> None:
    facts = read_local(onnx_models / "pipeline")
    graphs = list((onnx_models / "pipeline").rglob("*.onnx"))
    assert len(graphs) == 3
    assert facts.size_bytes == sum(graph.stat().st_size for graph in graphs)
    elements = (
        int(np.prod(tensor.dims))
        for graph in graphs
        for tensor in onnx.load(graph).graph.initializer
    )
    assert facts.parameters == sum(elements)
    folder = Path(shutil.copytree(onnx_models / "pipeline", tmp_path / "p"))
    with_external_data(folder / "unet", "model.onnx_data")
    told = read_local(folder)
    assert told.parameters == facts.parameters
    sizes = [p.stat().st_size for p in folder.rglob("*") if p.name.startswith("model.onnx")]
    assert len(sizes) == 4 and told.size_bytes == sum(sizes)
    (folder / "unet/model.onnx_data").unlink()
    with pytest.raises(HeaderFault, match=r"the file unet/model\.onnx_data is missing"):
        read_local(folder)


@pytest.mark.parametrize("graph", ["text_encoder", "unet", "vae_decoder"])
def test_a_pipeline_without_a_graph(onnx_models: Path, tmp_path: Path, graph: str) -> None:
    folder = Path(shutil.copytree(onnx_models / "pipeline", tmp_path / "p"))
    (folder / graph / "model.onnx").unlink()
    with pytest.raises(HeaderFault, match=rf"the file {graph}/model\.onnx is missing"):
        read_local(folder)


@pytest.mark.parametrize("name", ["absent", "absent.onnx", "model_index.json"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        read_local(tmp_path / name)


def test_what_names_no_onnx_model(tmp_path: Path) -> None:
    (tmp_path / "w.gguf").write_bytes(b"GGUF")
    with pytest.raises(HeaderFault, match=r"a file whose name ends in \.onnx"):
        read_local(tmp_path / "w.gguf")
    with pytest.raises(HeaderFault, match=r"the model's folder has none of model\.onnx, "):
        read_local(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(HeaderFault, match=r"the model's file config\.json is not there"):
        read_local(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    "how", [{}, {"ranges": False}, {"lengths": False}, {"tags": False}], ids=str
)
@pytest.mark.parametrize("model", NAMED)
def test_a_server_has_the_same_model(onnx_models: Path, model: str, how: dict[str, bool]) -> None:
    local: FileFacts = read_local(onnx_models / model)
    with folder_server(onnx_models) as server:
        for member, value in how.items():
            setattr(server, member, value)
        assert fetch_remote_facts(http(server, f"{model}/{NAMED[model]}"), {}) == local


def test_of_large_weights_nothing_is_read_but_their_size(onnx_models: Path, tmp_path: Path) -> None:
    inside = Path(shutil.copytree(onnx_models / "mean", tmp_path / "inside"))
    beside = Path(shutil.copytree(onnx_models / "mean", tmp_path / "beside"))
    with_external_data(inside, "", megabytes=32)
    with_external_data(beside, "model.onnx_data", megabytes=32)
    with folder_server(tmp_path) as server:
        for name in ("inside", "beside"):
            facts = fetch_remote_facts(http(server, f"{name}/onnx/model.onnx"), {})
            assert facts == read_local(tmp_path / name)
            assert facts.size_bytes > 32 << 20
        # What the kernel had taken before the client left is counted as sent.
        assert server.given["inside/onnx/model.onnx"] < 16 << 20
        assert server.given["beside/onnx/model.onnx_data"] < 16 << 20


def test_what_is_asked_for(onnx_models: Path) -> None:
    """The query, which may hold what gives access, goes with every file; no other host is asked."""
    with folder_server(onnx_models) as server:
        fetch_remote_facts(http(server, "mean/onnx/model.onnx", "?sig=a%2Fb&e=1"), {})
        assert server.names() == [
            "mean/1_Pooling/config.json",
            "mean/config.json",
            "mean/modules.json",
            "mean/onnx/config.json",
            "mean/onnx/model.onnx",
            "mean/tokenizer.json",
            "mean/tokenizer_config.json",
        ]
        assert {target.partition("?")[2] for target in server.asked} == {"sig=a%2Fb&e=1"}


def test_names_that_must_be_quoted(onnx_models: Path, tmp_path: Path) -> None:
    shutil.copytree(onnx_models / "mean", tmp_path / "ü %41+b/é c")
    folder = tmp_path / "ü %41+b/é c"
    (folder / "onnx/model.onnx").rename(folder / "onnx/größe 1+2.onnx")
    local = read_local(folder / "onnx/größe 1+2.onnx")
    with folder_server(tmp_path) as server:
        name = "%C3%BC%20%2541+b/%C3%A9%20c/onnx/gr%C3%B6%C3%9Fe%201%2B2.onnx"
        assert fetch_remote_facts(http(server, name), {}) == local
        assert all(target.startswith("/%C3%BC%20%2541+b/%C3%A9%20c/") for target in server.asked)
    with folder_server(tmp_path, "/mirror/org/m/resolve/refs%2Fpr%2F1/") as server:
        source = Source.model_validate(
            {
                "huggingFace": {
                    "repo": "org/m",
                    "revision": "refs/pr/1",
                    "file": "ü %41+b/é c/onnx/größe 1+2.onnx",
                }
            }
        )
        server.prefix = "/mirror/org/m/resolve/refs/pr/1/"
        environ = {"HF_ENDPOINT": f"http://127.0.0.1:{server.port}/mirror"}
        assert fetch_remote_facts(source, environ) == local
        assert all("/org/m/resolve/refs%2Fpr%2F1/" in target for target in server.asked)


@pytest.mark.parametrize(
    ("there", "path", "root"),
    [
        (["m/config.json"], "m/onnx/model.onnx", ("m", "onnx/model.onnx")),
        (["m/onnx/config.json"], "m/onnx/model.onnx", ("m/onnx", "model.onnx")),
        (["m/config.json", "m/onnx/config.json"], "m/onnx/model.onnx", ("m/onnx", "model.onnx")),
        (["config.json"], "model.onnx", ("", "model.onnx")),
        (["config.json"], "onnx/model.onnx", ("", "onnx/model.onnx")),
        ([], "a/b/model_index.json", ("a/b", "model_index.json")),
        ([], "model_index.json", ("", "model_index.json")),
    ],
)
def test_where_a_model_begins(
    tmp_path: Path, there: list[str], path: str, root: tuple[str, str]
) -> None:
    for name in there:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    with folder_server(tmp_path) as server:
        assert find_root(http(server, path), {}) == root


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("w.gguf", "ends in .onnx"),
        ("download/", "ends in .onnx"),
        ("onnx%2Fmodel.onnx", "ends in .onnx"),
        ("a/b/model.onnx", "config.json is not there"),
        # The folder above has a config, but its own folder can have no name in the cache.
        (f"{'x' * 201}/model.onnx", "config.json is not there"),
        ("%2E%2E/model.onnx", "config.json is not there"),
    ],
)
def test_where_no_model_begins(tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    with folder_server(tmp_path) as server, pytest.raises(HeaderFault) as told:
        find_root(http(server, path), {})
    assert words in told.value.message


def test_only_what_is_remote_has_a_root_on_a_server() -> None:
    with pytest.raises(ValueError, match="no root on a server"):
        find_root(Source(path="/m/model.onnx"), {})


@pytest.mark.parametrize(
    "location", ["../escaped", "/etc/passwd", "a/../../b", "..", "*/_ORT_MEM_ADDR_/_", "a\\b"]
)
def test_data_that_would_lie_elsewhere(onnx_models: Path, tmp_path: Path, location: str) -> None:
    folder = Path(shutil.copytree(onnx_models / "cls", tmp_path / "m"))
    model = onnx.load(folder / "model.onnx")
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    tensor.external_data.add(key="location", value=location)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "escaped").write_bytes(b"x" * 100_000)
    with folder_server(tmp_path) as server:
        for read in (
            lambda: read_local(folder),
            lambda: fetch_remote_facts(http(server, "m/model.onnx"), {}),
        ):
            with pytest.raises(HeaderFault, match="is no file in the model's folder"):
                read()
        assert all(name.startswith("m/") or name == "config.json" for name in server.names())


def test_a_module_that_would_lie_elsewhere(onnx_models: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(onnx_models / "mean", tmp_path / "m"))
    modules: list[dict[str, Any]] = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = "../1_Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    with folder_server(tmp_path) as server:
        with pytest.raises(HeaderFault, match="outside the model's folder"):
            fetch_remote_facts(http(server, "m/onnx/model.onnx"), {})
        assert not any("Pooling" in name for name in server.names())
