"""Models and engines that the tests of the ONNX engine share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from support.onnx_engine import onnx_engine
from support.tiny_onnx import TinyOnnx


@pytest.fixture(scope="session")
def tiny_onnx(tmp_path_factory: pytest.TempPathFactory) -> TinyOnnx:
    """The tiny models, made once in a session."""
    return TinyOnnx(tmp_path_factory.mktemp("tiny-onnx"))


@pytest.fixture(scope="session")
def onnx_client(
    tiny_onnx: TinyOnnx, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], httpx.Client]]:
    """A client of the engine of a tiny model, which is started at the first call."""
    clients: dict[str, httpx.Client] = {}
    with ExitStack() as running:

        def client(name: str) -> httpx.Client:
            if name not in clients:
                flags = ("--mode", "rerank") if name == "rerank" else ()
                keys = tmp_path_factory.mktemp("key")
                clients[name] = running.enter_context(
                    onnx_engine(Path(tiny_onnx.root / name), keys, *flags)
                )
            return clients[name]

        yield client


@pytest.fixture
def copy(tiny_onnx: TinyOnnx, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a tiny model's folder, to be spoilt."""

    def copied(name: str) -> Path:
        return Path(shutil.copytree(tiny_onnx.root / name, tmp_path / name))

    return copied
