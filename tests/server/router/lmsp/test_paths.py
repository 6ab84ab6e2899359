"""Paths of models, and what may be done to a path."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.vocabulary import ALIAS_PATTERN
from pumas_server.router.lmsp.paths import MODELS, allowed_methods, model_path


@pytest.mark.parametrize(
    ("model_id", "path"),
    [
        ("qwen3:14b-q4_k_m", "qwen3:14b-q4_k_m"),
        ("org/emb:1", "org%2Femb:1"),
        ("a+b@gpu", "a+b@gpu"),
        ("a%2Fb", "a%252Fb"),
    ],
)
def test_an_id_is_one_segment(model_id: str, path: str) -> None:
    assert model_path(model_id) == f"{MODELS}/{path}"


@given(st.from_regex(ALIAS_PATTERN, fullmatch=True))
def test_a_path_is_read_back(model_id: str) -> None:
    path = model_path(model_id)
    assert path.count("/") == MODELS.count("/") + 1
    assert unquote(path) == f"{MODELS}/{model_id}"


@pytest.mark.parametrize(
    ("path", "found", "managed", "allowed"),
    [
        (MODELS, "HEAD, GET", True, "GET, HEAD"),
        (f"{MODELS}/a/load", "POST", True, "POST"),
        (f"{MODELS}/a/b/unload", "POST", False, "GET, HEAD"),
        (f"{MODELS}/a\nb/load", "POST", False, "GET, HEAD"),
        (f"{MODELS}/load", "GET, HEAD", False, "GET, HEAD"),
    ],
)
def test_allowed_methods(path: str, found: str, managed: bool, allowed: str) -> None:
    assert allowed_methods(path, found, managed=managed) == allowed
