"""The JSON of the engine's answers, as llama-server writes them.

Numbers that are not finite become `null`: nothing is made up, and whoever reads the answer sees
that it is none.
"""

from __future__ import annotations

import base64

import numpy as np
import orjson

from pumas_server.worker.onnx.pooling import Floats


def embeddings_answer(model: object, vectors: Floats, tokens: int, *, as_base64: bool) -> bytes:
    """The body for these vectors, which took so many tokens."""
    data = [
        {"object": "embedding", "index": index, "embedding": _encoded(row) if as_base64 else row}
        for index, row in enumerate(vectors)
    ]
    return _dump({"object": "list", **_model(model), "data": data, "usage": _usage(tokens)})


def ranking_answer(model: object, scores: list[tuple[int, np.float32]], tokens: int) -> bytes:
    """The body for these documents, by index, and their scores."""
    results = [{"index": index, "relevance_score": score} for index, score in scores]
    return _dump({**_model(model), "object": "list", "results": results, "usage": _usage(tokens)})


def _encoded(row: Floats) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode("ascii")


def _model(name: object) -> dict[str, str]:
    return {"model": name} if isinstance(name, str) else {}


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": tokens, "total_tokens": tokens}


def _dump(body: dict[str, object]) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
