"""The init container and the inspection Job's, with ONNX models on a real HTTP server."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from pumas_server.worker import download
from pumas_server.worker.onnx.loading import load_encoder
from support.containers import Containers
from support.folder_server import FolderServer, folder_server
from support.worker import free_ports

MEAN = [
    "1_Pooling/config.json",
    "config.json",
    "modules.json",
    "onnx/model.onnx",
    "tokenizer.json",
]
GRAPH = "mean/onnx/model.onnx"


@pytest.fixture
def served(onnx_models: Path, tmp_path: Path) -> Path:
    """A copy of the tiny models, to be spoilt."""
    return Path(shutil.copytree(onnx_models, tmp_path / "served"))


@pytest.fixture
def server(served: Path) -> Iterator[FolderServer]:
    with folder_server(served) as running:
        yield running


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Containers:
    monkeypatch.setattr(download, "PAUSE_SECONDS", 0.0)
    return Containers(tmp_path, monkeypatch)


def http(server: FolderServer, name: str = GRAPH) -> dict[str, Any]:
    return {"http": {"url": server.url + name}}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("model", "named", "files"),
    [
        ("mean", "onnx/model.onnx", MEAN),
        (
            "split",
            "onnx/text_model.onnx",
            [
                "config.json",
                "onnx/text_model.onnx",
                "onnx/vision_model.onnx",
                "preprocessor_config.json",
                "tokenizer.json",
            ],
        ),
        (
            "pipeline",
            "model_index.json",
            [
                "pipeline/model_index.json",
                "pipeline/scheduler/scheduler_config.json",
                "pipeline/text_encoder/config.json",
                "pipeline/text_encoder/model.onnx",
                "pipeline/tokenizer/merges.txt",
                "pipeline/tokenizer/special_tokens_map.json",
                "pipeline/tokenizer/tokenizer_config.json",
                "pipeline/tokenizer/vocab.json",
                "pipeline/unet/config.json",
                "pipeline/unet/model.onnx",
                "pipeline/vae_decoder/config.json",
                "pipeline/vae_decoder/model.onnx",
            ],
        ),
    ],
)
def test_exactly_what_is_read_is_fetched(
    pod: Containers, server: FolderServer, served: Path, model: str, named: str, files: list[str]
) -> None:
    (served / model / "README.md").write_text("not for us")
    (served / model / "model.safetensors").write_bytes(b"nor this")
    inspected = pod.inspect(http(server, f"{model}/{named}"))
    assert inspected.code == 0 and not pod.models.exists(), "an inspection keeps nothing"
    fetched = pod.fetch(http(server, f"{model}/{named}"))
    assert (fetched.code, fetched.file) == (0, inspected.file)
    assert pod.cached() == files


def test_what_was_fetched_can_be_loaded(pod: Containers, server: FolderServer) -> None:
    assert pod.fetch(http(server)).code == 0
    loaded = load_encoder(pod.place() / "onnx/model.onnx", False, "cpu", 1)
    assert loaded.embedding_width == 16


def test_from_a_hub_and_its_mirror(
    pod: Containers, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {"huggingFace": {"repo": "org/tiny", "file": "mean/onnx/model.onnx"}}
    with folder_server(served, "/mirror/org/tiny/resolve/main/") as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.port}/mirror/")
        assert pod.inspect(source).code == pod.fetch(source).code == 0
        assert pod.cached() == [f"mean/{name}" for name in MEAN]


def test_external_data_comes_with_its_graph(
    pod: Containers, server: FolderServer, served: Path
) -> None:
    graph = served / GRAPH
    model = onnx.load(graph)
    onnx.save(model, graph, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert pod.fetch(http(server)).code == 0
    assert "onnx/w.bin" in pod.cached()
    data = served / "mean/onnx/w.bin"
    data.write_bytes(data.read_bytes()[:-1])
    told = pod.inspect(http(server))
    assert (told.code, told.reason) == (0, "Truncated")
    assert "w.bin has" in told.message and "its tensors need" in told.message
    data.unlink()
    told = pod.inspect(http(server))
    assert (told.reason, told.message) == (
        "NotAModel",
        "model.onnx: the model's file w.bin is not there",
    )


def test_whole_models_are_served_without_their_server(
    pod: Containers, server: FolderServer
) -> None:
    first = pod.fetch(http(server))
    asked = len(server.asked)
    assert pod.fetch(http(server)).file == first.file
    assert len(server.asked) == asked


def test_a_cache_that_lost_a_file_is_completed(pod: Containers, server: FolderServer) -> None:
    first = pod.fetch(http(server))
    (pod.place() / "tokenizer.json").unlink()
    server.asked.clear()
    assert pod.fetch(http(server)).file == first.file
    assert "mean/tokenizer.json" in server.names() and GRAPH not in server.names()
    assert pod.cached() == MEAN


def test_a_fetch_that_broke_off_is_gone_on_with(pod: Containers, server: FolderServer) -> None:
    """Within one attempt, and when the attempts of one start were used up."""
    server.breaks[GRAPH] = 5000
    assert pod.fetch(http(server)).code == 0
    shutil.rmtree(pod.models)

    def gone(name: str, part: str) -> None:
        if name == "mean/tokenizer.json":
            raise ConnectionResetError

    server.before = gone
    told = pod.fetch(http(server))
    assert (told.code, told.reason) == (1, "SourceUnreachable")
    assert "onnx/model.onnx" in pod.cached(), "what has come stays"
    server.before = lambda name, part: None
    server.asked.clear()
    assert pod.fetch(http(server)).code == 0
    assert GRAPH not in server.names()
    assert pod.cached() == MEAN


def test_an_inspection_that_broke_off_is_no_verdict(pod: Containers, server: FolderServer) -> None:
    server.breaks[GRAPH] = 5000
    told = pod.inspect(http(server))
    assert (told.code, told.reason) == (1, "SourceUnreachable")
    assert told.message.startswith("model.onnx cannot be fetched: ")
    assert pod.inspect(http(server)).code == 0


def test_the_digest_is_of_the_named_graph(
    pod: Containers, server: FolderServer, served: Path
) -> None:
    digest = sha256(served / GRAPH)
    told = pod.fetch(http(server), sha256=digest)
    assert told.code == 0 and told.file is not None
    assert told.file["digest"] == f"sha256:{digest}"
    inspected = pod.inspect(http(server), sha256="0" * 64)
    assert inspected.code == 0, "of a remote model it is checked when it is fetched"


def test_weights_with_another_digest_are_fetched_anew(
    pod: Containers, server: FolderServer, served: Path
) -> None:
    right = (served / GRAPH).read_bytes()
    digest = hashlib.sha256(right).hexdigest()
    model = onnx.load(served / GRAPH)
    model.doc_string = "another file that serves as well"
    (served / GRAPH).write_bytes(model.SerializeToString())
    told = pod.fetch(http(server), sha256=digest)
    assert (told.code, told.reason) == (1, "DigestMismatch")
    assert told.message.startswith("model.onnx has sha256 ")
    assert "onnx/model.onnx" not in pod.cached()
    (served / GRAPH).write_bytes(right)
    assert pod.fetch(http(server), sha256=digest).code == 0
    # Bytes that spoil in the cache.
    spoilt = pod.place() / "onnx/model.onnx"
    spoilt.write_bytes(model.SerializeToString())
    assert pod.fetch(http(server), sha256=digest).reason == "DigestMismatch"
    assert pod.fetch(http(server), sha256=digest).code == 0


def test_another_digest_is_another_place(pod: Containers, server: FolderServer) -> None:
    """What is wrong for one model is right for another, and stays there."""
    assert pod.fetch(http(server)).code == 0
    assert pod.fetch(http(server), sha256="0" * 64).reason == "DigestMismatch"
    assert pod.cached() == MEAN


@pytest.mark.parametrize("verb", ["inspect", "fetch"])
def test_a_pipeline_has_no_digest(pod: Containers, server: FolderServer, verb: str) -> None:
    source = http(server, "pipeline/model_index.json")
    told = getattr(pod, verb)(source, sha256="0" * 64)
    assert (told.reason, told.message) == (
        "NotImplemented",
        "a pipeline is many files, so it has no sha256 to check",
    )
    assert server.asked == []


def test_what_is_refused_does_not_stay(pod: Containers, server: FolderServer, served: Path) -> None:
    """Or a file that was mended on its server would never be fetched."""
    right = (served / GRAPH).read_bytes()
    (served / GRAPH).write_bytes(right[:-100])
    told = pod.fetch(http(server))
    assert (told.code, told.reason) == (1, "Truncated")
    assert pod.cached() == []
    (served / GRAPH).write_bytes(right)
    assert pod.fetch(http(server)).code == 0
    # A whole model is another's too: who cannot use it leaves it.
    assert pod.fetch(http(server), task="text-ranking").reason != ""
    assert pod.cached() == MEAN


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "model.onnx: the model's file config.json is not there"),
        ("onnx/model.onnx", "model.onnx: the model's file onnx/model.onnx is not there"),
        ("tokenizer.json", "model.onnx: the model's file tokenizer.json is not there"),
        ("1_Pooling/config.json", "the model's file 1_Pooling/config.json is not there"),
    ],
)
def test_a_file_that_is_needed_and_not_there(
    pod: Containers, server: FolderServer, served: Path, missing: str, message: str
) -> None:
    (served / "mean" / missing).unlink()
    for look in (pod.inspect, pod.fetch):
        told = look(http(server))
        assert told.reason == "NotAModel" and told.message.endswith(message)
    assert pod.cached() == []


def test_files_that_need_not_be_there(pod: Containers, server: FolderServer, served: Path) -> None:
    (served / "mean/modules.json").unlink()
    (served / "mean/1_Pooling/config.json").unlink()
    told = pod.fetch(http(server))
    assert told.code == 0 and told.file is not None and told.file["pooling"] == ""
    assert pod.cached() == ["config.json", "onnx/model.onnx", "tokenizer.json"]


@pytest.mark.parametrize("verb", ["inspect", "fetch"])
def test_nobody_there(pod: Containers, verb: str) -> None:
    source = {"http": {"url": f"http://127.0.0.1:{free_ports(1)[0]}/m/model.onnx?secret=1"}}
    told = getattr(pod, verb)(source)
    assert (told.code, told.reason) == (1, "SourceUnreachable")
    assert told.message.startswith("model.onnx cannot be fetched: the server cannot be reached")
    assert "secret" not in told.message


def test_a_cache_that_cannot_be_written(pod: Containers, server: FolderServer) -> None:
    pod.models.write_text("a file and no folder")
    told = pod.fetch(http(server))
    assert (told.code, told.reason) == (1, "FetchFailed")
    assert told.message == "model.onnx cannot be put into the cache: Not a directory"


def test_a_cache_without_room(
    pod: Containers, server: FolderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: SimpleNamespace(free=9))
    told = pod.fetch(http(server))
    assert (told.code, told.reason) == (1, "FetchFailed")
    assert "but the cache has only" in told.message
