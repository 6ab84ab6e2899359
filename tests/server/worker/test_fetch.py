"""The init container and the inspection Job's container, as processes over a real HTTP server."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pumas_crds.vocabulary import TERMINATION_LOG
from support.file_server import FileServer, file_server
from support.worker import free_ports


def run(
    verb: str, folder: Path, source: dict[str, Any], **environ_and_spec: Any
) -> tuple[int, dict[str, Any], str]:
    """Exit status, what is in the termination log, what was said."""
    environ = environ_and_spec.pop("environ", {})
    told = {"alias": "tiny", "runtime": "llama.cpp", "source": source, **environ_and_spec}
    (folder / "run").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pumas_server.worker", verb],
        env={
            **os.environ,
            "PUMAS_WORKER": json.dumps(told),
            "PUMAS_RUN": str(folder / "run"),
            "PUMAS_MODELS": str(folder / "models"),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "127.0.0.1" not in done.stderr and str(folder) not in done.stderr
    return done.returncode, json.loads((folder / "run" / TERMINATION_LOG).read_text()), done.stderr


def http(server: FileServer) -> dict[str, Any]:
    return {"http": {"url": server.url}}


def test_fetch_puts_the_file_where_the_engine_looks_for_it(
    tiny_models: Path, tmp_path: Path
) -> None:
    content = (tiny_models / "tiny-chat.gguf").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    with file_server(content) as server:
        code, told, said = run("fetch", tmp_path, http(server), sha256=digest)
        assert (code, told["file"]["digest"]) == (0, f"sha256:{digest}")
        assert said.startswith("w.gguf can be served: llama")
        cached = tmp_path / "models" / f"sha256-{digest}" / "w.gguf"
        assert cached.read_bytes() == content
        assert run("fetch", tmp_path, http(server), sha256=digest)[0] == 0
    assert len(server.asked) == 1, "the second start finds it there"


def test_fetch_from_a_hub(tiny_models: Path, tmp_path: Path) -> None:
    source = {"huggingFace": {"repo": "org/tiny", "revision": "refs/pr/1", "file": "q/t.gguf"}}
    with file_server((tiny_models / "tiny-embed.gguf").read_bytes()) as server:
        environ = {"HF_ENDPOINT": f"http://127.0.0.1:{server.port}"}
        for verb in ("inspect", "fetch"):
            code, told, _ = run(verb, tmp_path, source, environ=environ)
            assert (code, told["file"]["pooling"]) == (0, "mean")
    assert {path for path, _ in server.asked} == {"/org/tiny/resolve/refs%2Fpr%2F1/q/t.gguf"}


@pytest.mark.parametrize("verb", ["fetch", "inspect"])
def test_a_server_that_does_not_have_it(tmp_path: Path, verb: str) -> None:
    with file_server(b"", statuses=[404]) as server:
        code, told, _ = run(verb, tmp_path, http(server))
    assert code == 1, "it may be there later"
    assert told["error"] == {
        "reason": "SourceUnreachable",
        "message": "w.gguf cannot be fetched: the server does not have it (404)",
    }


def test_nobody_there(tmp_path: Path) -> None:
    source = {"http": {"url": f"http://127.0.0.1:{free_ports(1)[0]}/w.gguf"}}
    code, told, _ = run("inspect", tmp_path, source)
    assert (code, told["error"]["reason"]) == (1, "SourceUnreachable")


@pytest.mark.parametrize(("verb", "code"), [("fetch", 1), ("inspect", 0)], ids=["fetch", "inspect"])
@pytest.mark.parametrize(
    ("cut", "spec", "reason"),
    [
        (100_000, {}, "Truncated"),
        (None, {"task": "text-ranking"}, "MissingRankingHead"),
        (None, {"runtime": "onnxruntime"}, "NotAModel"),
        (None, {"engine": {"steps": 4}}, "NotImplemented"),
    ],
)
def test_a_verdict_that_no_repetition_mends(
    tiny_models: Path,
    tmp_path: Path,
    verb: str,
    code: int,
    cut: int | None,
    spec: dict[str, Any],
    reason: str,
) -> None:
    """For the Job that is success: it has found out. A pod must not go on to serve."""
    content = (tiny_models / "tiny-chat.gguf").read_bytes()[:cut]
    with file_server(content) as server:
        ended, told, _ = run(verb, tmp_path, http(server), **spec)
    assert (ended, told["error"]["reason"]) == (code, reason)
    assert not list((tmp_path / "models").rglob("w.gguf"))


def test_another_digest_is_found_when_it_is_fetched(tiny_models: Path, tmp_path: Path) -> None:
    with file_server((tiny_models / "tiny-chat.gguf").read_bytes()) as server:
        code, told, _ = run("fetch", tmp_path, http(server), sha256="0" * 64)
        assert (code, told["error"]["reason"]) == (1, "DigestMismatch")
        code, told, _ = run("inspect", tmp_path, http(server), sha256="0" * 64)
        assert (code, "digest" in told["file"] and told["file"]["digest"]) == (0, "")
    assert not list((tmp_path / "models").rglob("w.gguf"))


def test_inspecting_a_file_that_is_there_checks_its_digest(
    tiny_models: Path, tmp_path: Path
) -> None:
    source = {"path": str(tiny_models / "tiny-chat.gguf")}
    code, told, _ = run("inspect", tmp_path, source, sha256="0" * 64)
    assert (code, told["error"]["reason"]) == (0, "DigestMismatch")
    code, told, said = run("inspect", tmp_path, source)
    assert (code, told["file"]["architecture"]) == (0, "llama")
    assert "can be served" in said
    code, told, _ = run("inspect", tmp_path, {"path": "/nowhere/m.gguf"})
    assert (code, told["error"]["reason"]) == (1, "SourceUnreachable")


def test_a_cache_that_cannot_be_written(tiny_models: Path, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file and no folder")
    with file_server((tiny_models / "tiny-chat.gguf").read_bytes()) as server:
        code, told, _ = run("fetch", tmp_path, http(server))
    assert (code, told["error"]["reason"]) == (1, "FetchFailed")
    assert told["error"]["message"].startswith("w.gguf cannot be put into the cache: ")


def test_inspect_needs_a_spec_and_a_place_for_its_result(tmp_path: Path) -> None:
    environ = {**os.environ, "PUMAS_WORKER": "{}", "PUMAS_RUN": str(tmp_path / "nowhere")}
    done = subprocess.run(
        [sys.executable, "-m", "pumas_server.worker", "inspect"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1 and "cannot be written" in done.stderr


def test_weights_and_projector_are_fetched_each_into_its_place(
    tiny_models: Path, tmp_path: Path
) -> None:
    weights, eyes = (
        (tiny_models / f"{name}.gguf").read_bytes() for name in ("tiny-chat", "tiny-projector")
    )
    with file_server(weights) as server, file_server(eyes) as other:
        for verb in ("inspect", "fetch", "fetch"):
            code, told, said = run(verb, tmp_path, http(server), projector=http(other))
            assert code == 0, said
            assert told["file"]["projector"] == {
                "inputModalities": ["image", "audio"], "sizeBytes": len(eyes), "width": 64,
            }  # fmt: skip
        # To inspect, to fetch; the second start finds both there.
        assert (len(server.asked), len(other.asked)) == (2, 2)
    found = {path.read_bytes() for path in (tmp_path / "models").rglob("*.gguf")}
    assert found == {weights, eyes}


def test_a_projector_that_is_there_is_served_where_it_lies(
    tiny_models: Path, tmp_path: Path
) -> None:
    eyes = {"path": str(tiny_models / "tiny-projector.gguf")}
    with file_server((tiny_models / "tiny-chat.gguf").read_bytes()) as server:
        for verb in ("inspect", "fetch"):
            code, told, _ = run(verb, tmp_path, http(server), projector=eyes)
            assert (code, told["file"]["projector"]["width"]) == (0, 64)
    assert len([*(tmp_path / "models").rglob("*.gguf")]) == 1


@pytest.mark.parametrize(("verb", "code"), [("fetch", 1), ("inspect", 0)], ids=["fetch", "inspect"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [("tiny-projector-wide", "ProjectorMismatch"), ("tiny-embed", "NotAModel")],
)
def test_a_projector_that_cannot_be_its(
    tiny_models: Path, tmp_path: Path, verb: str, code: int, name: str, reason: str
) -> None:
    source = {"path": str(tiny_models / "tiny-chat.gguf")}
    with file_server((tiny_models / f"{name}.gguf").read_bytes()) as server:
        status, told, _ = run(verb, tmp_path, source, projector=http(server))
    assert (status, told["error"]["reason"]) == (code, reason)
    assert told["error"]["message"].startswith("w.gguf: ")
    assert not [*(tmp_path / "models").rglob("*.gguf")], "what is no use is not kept"


@pytest.mark.parametrize("verb", ["fetch", "inspect"])
def test_a_projector_that_cannot_be_reached(tiny_models: Path, tmp_path: Path, verb: str) -> None:
    source = {"path": str(tiny_models / "tiny-chat.gguf")}
    with file_server(b"", statuses=[404]) as server:
        code, told, _ = run(verb, tmp_path, source, projector=http(server))
    assert (code, told["error"]["reason"]) == (1, "SourceUnreachable")
