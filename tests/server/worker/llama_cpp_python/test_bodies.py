"""Bodies mean what they mean with llama-server."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from pumas_server.worker.llama_cpp_python.bodies import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    Unfit,
    complete,
    in_base64,
)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_what_is_left_out_of_a_text_call(path: str) -> None:
    told = {"repeat_penalty": 1.0, "seed": 7, "max_tokens": None}
    assert complete(path, {"stream": True, "n": 1}, 7) == told | {"stream": True, "n": 1}
    assert complete(path, {"seed": None, "max_tokens": None}, 7) == told


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_what_is_said_stays(path: str) -> None:
    said = {"repeat_penalty": 1.3, "seed": 1, "max_tokens": 2}
    assert complete(path, said, 7) == said


def test_the_newer_name_of_a_limit() -> None:
    assert complete(CHAT, {"max_completion_tokens": 3}, 7)["max_tokens"] == 3


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (CHAT, {"n": 2}, "n is 1"),
        (COMPLETIONS, {"n": "1"}, "n is 1"),
        (EMBEDDINGS, {"dimensions": 3}, "dimensions"),
        (EMBEDDINGS, {"encoding_format": "hex"}, "encoding_format"),
        (EMBEDDINGS, {"encoding_format": ["float"]}, "encoding_format"),
    ],
)
def test_what_would_be_ignored_is_refused(path: str, body: dict[str, Any], named: str) -> None:
    with pytest.raises(Unfit, match=named):
        complete(path, body, 7)


def test_vectors_in_base64() -> None:
    vector = [0.5, -0.25, 0.1]
    answer = {"object": "list", "data": [{"index": 0, "embedding": vector}], "usage": {}}
    told = in_base64(answer)
    (entry,) = told["data"]  # type: ignore[misc]
    assert told["usage"] == {}
    raw = np.frombuffer(base64.b64decode(entry["embedding"]), "<f4")  # type: ignore[index]
    assert np.array_equal(raw, np.float32(vector))
