"""Fixtures that all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tiny_models import build_tiny_models


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tiny models, made once in a session."""
    folder = tmp_path_factory.mktemp("tiny-models")
    build_tiny_models(folder)
    return folder
