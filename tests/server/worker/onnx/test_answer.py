"""Answers say what was computed, and hide nothing of it."""

from __future__ import annotations

import json

import numpy as np

from pumas_server.worker.onnx.answer import embeddings_answer, ranking_answer

VECTORS = np.array([[1, np.nan], [np.inf, -0.5]], np.float32)


def test_numbers_that_are_not_finite_are_null() -> None:
    answer = json.loads(embeddings_answer("m", VECTORS, 7, as_base64=False))
    assert [entry["embedding"] for entry in answer["data"]] == [[1, None], [None, -0.5]]
    ranking = json.loads(ranking_answer("m", [(1, VECTORS[0, 1]), (0, VECTORS[1, 1])], 3))
    assert ranking["results"] == [
        {"index": 1, "relevance_score": None},
        {"index": 0, "relevance_score": -0.5},
    ]


def test_a_model_that_is_no_name_is_not_told() -> None:
    assert "model" not in json.loads(embeddings_answer(7, VECTORS, 7, as_base64=True))
