"""Which program is taken as the engine."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pumas_crds.vocabulary import Runtime
from pumas_server.worker.engine import EngineNotFound, find_engine

LLAMA = Runtime.LLAMA_CPP


def program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_named_program_comes_first(tmp_path: Path) -> None:
    named = program(tmp_path / "mine")
    program(tmp_path / "bin" / "llama-server")
    environ = {"LLAMA_SERVER_BIN": str(named), "PATH": str(tmp_path / "bin")}
    found = find_engine(environ, LLAMA)
    assert (found.command, found.build) == ((str(named),), "")
    assert found.extra_arguments is None, "it says itself what it takes"


def test_then_llama_server_on_the_path(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin" / "llama-server")
    assert find_engine({"PATH": str(tmp_path / "bin")}, LLAMA).command == (str(on_path),)


def test_then_the_wheel(tmp_path: Path) -> None:
    found = find_engine({"PATH": str(tmp_path), "LLAMA_SERVER_BIN": ""}, LLAMA)
    assert found.command[0] == sys.executable
    assert found.command[-1] == "pumas_server.worker.engine_xllama"
    assert found.build.startswith("xllamacpp 20")
    assert found.extra_arguments is not None, "what it does not take is refused by name"


@pytest.mark.parametrize("what", ["absent", "folder", "not executable"])
def test_a_name_that_cannot_be_run_is_refused_not_passed_over(tmp_path: Path, what: str) -> None:
    named = tmp_path / "engine"
    if what == "folder":
        named.mkdir()
    elif what == "not executable":
        named.write_text("")
    with pytest.raises(EngineNotFound) as refusal:
        find_engine({"LLAMA_SERVER_BIN": str(named), "PATH": "/usr/bin"}, LLAMA)
    assert "LLAMA_SERVER_BIN" in str(refusal.value)
    assert str(tmp_path) not in str(refusal.value)
    assert refusal.value.named == str(named)


def test_onnx_models_have_the_engine_that_comes_with_the_server(tmp_path: Path) -> None:
    named = program(tmp_path / "mine")
    found = find_engine({"LLAMA_SERVER_BIN": str(named), "PATH": ""}, Runtime.ONNX_RUNTIME)
    assert found.command == (sys.executable, "-P", "-m", "pumas_server.worker.onnx")
    assert (found.build, found.extra_arguments) == ("", None)


def test_nothing_is_started_for_an_external_server() -> None:
    with pytest.raises(EngineNotFound, match="no engine of ours"):
        find_engine({}, Runtime.EXTERNAL)


def test_another_engine_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumas_server.worker.engine.version", lambda name: f"of {name}")
    environ = {"PUMAS_ENGINE": "llama-cpp-python", "LLAMA_SERVER_BIN": "/nowhere"}
    found = find_engine(environ, LLAMA)
    assert found.command[-1] == "pumas_server.worker.llama_cpp_python"
    assert found.build == "llama-cpp-python of llama-cpp-python"
    assert found.extra_arguments is not None
    assert found.limits is not None
    assert found.limits.slots == 1


def test_another_engine_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("pumas_server.worker.engine.version", absent)
    with pytest.raises(EngineNotFound, match=r"pip install '\.\[llama-cpp-python\]'"):
        find_engine({"PUMAS_ENGINE": "llama-cpp-python"}, LLAMA)


def test_an_engine_that_nobody_knows_is_refused() -> None:
    with pytest.raises(EngineNotFound) as refusal:
        find_engine({"PUMAS_ENGINE": "vroom /etc", "PATH": "/usr/bin"}, LLAMA)
    assert str(refusal.value) == (
        "PUMAS_ENGINE names no engine: set it to llama-cpp-python, or not at all"
    )
    assert refusal.value.named == "vroom /etc"


def test_the_engine_that_is_asked_for_is_one_for_gguf_files() -> None:
    found = find_engine({"PUMAS_ENGINE": "llama-cpp-python", "PATH": ""}, Runtime.ONNX_RUNTIME)
    assert found.command[-1] == "pumas_server.worker.onnx"
