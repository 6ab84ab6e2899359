"""Fixtures that all tests share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.groups import GroupsOfFiles
from support.tiny_models import build_tiny_models


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny models, made once in a session."""
    folder = tmp_path_factory.mktemp("tiny-models")
    build_tiny_models(folder)
    return folder


@pytest.fixture(scope="session")
def onnx_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the folders of the tiny ONNX models, made once in a session."""
    # Here and not above: what makes them takes a while to import.
    from support.tiny_onnx import build_tiny_onnx
    from support.tiny_pipeline import build_tiny_pipeline

    folder = tmp_path_factory.mktemp("onnx-models")
    build_tiny_onnx(folder)
    build_tiny_pipeline(folder / "pipeline")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The objects of all tests stay to the end: no collection of garbage looks at them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupsOfFiles | None:
    """See `support.groups`."""
    return GroupsOfFiles(config, log) if config.getvalue("dist") == "loadgroup" else None
