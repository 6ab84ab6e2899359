"""What the router is asked in its measurements."""

from __future__ import annotations

import json

from load.provider import DOCUMENTS, INPUTS

_MESSAGES = [{"role": "user", "content": "hi"}]


def _operation(model: str, **rest: object) -> bytes:
    return json.dumps(
        {"contract_version": 1, "request_id": "load:1", "model": model, **rest}
    ).encode()


CHAT = json.dumps({"model": "m", "messages": _MESSAGES}).encode()
OPERATION = _operation(
    "m",
    capability="chat_generation",
    input={"kind": "messages", "messages": _MESSAGES},
    output="text",
)
EMBEDDINGS = _operation(
    "e", input={"kind": "text_batch", "texts": ["a text"] * INPUTS}, output="embeddings_float32"
)
RERANK = _operation(
    "r",
    input={"kind": "rerank", "query": "which river", "documents": ["a document"] * DOCUMENTS},
    output="relevance_scores",
)
