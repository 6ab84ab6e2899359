"""A provider that answers every route coherently, whatever it is asked; and models that use it.

For tests that are about the router's side: each answer is as long as the request wants it.
"""

from __future__ import annotations

import json
from typing import Any

from pumas_server.router.forwarded_routes import ROUTES
from pumas_server.router.source import ModelRecord
from support.models import served_model
from support.routers import external
from support.senses import png, text_of
from support.upstream import DONE, HELLO, Conversation, text

#: What `GET /v1/models` of the provider says: one plain model, and a native decision model.
MODELS: dict[str, Any] = {
    "object": "list",
    "data": [
        {"id": "served", "object": "model"},
        {
            "id": "judge",
            "object": "model",
            "architecture": {"input_modalities": ["text"], "output_modalities": ["decisions"]},
        },
        {
            "id": "senses",
            "object": "model",
            "architecture": {
                "input_modalities": ["text", "image", "audio"],
                "output_modalities": ["text"],
            },
        },
    ],
}


async def answer_coherently(talk: Conversation) -> None:
    """The script: by path; OpenAI bodies that are nonsense get an answer nevertheless."""
    form = talk.request.headers.get("content-type", "").startswith("multipart/")
    asked = {"stream": b'name="stream"\r\n\r\ntrue' in talk.request.body} if form else {}
    asked = asked or talk.request.json
    match talk.request.path:
        case "/v1/chat/completions" if asked.get("stream") is True:
            await talk.stream(*HELLO)
        case "/v1/completions" if asked.get("stream") is True:
            await talk.stream(text("hel"), text("lo", "stop"), DONE)
        case "/v1/chat/completions":
            message = {"role": "assistant", "content": "hello"}
            await _json(talk, {"choices": [{"index": 0, "message": message}]})
        case "/v1/completions":
            await _json(talk, {"choices": [{"index": 0, "text": "hello"}]})
        case path if asked.get("stream") is True and path in ROUTES:
            await talk.stream(DONE)
        case "/v1/embeddings":
            await _json(talk, {"data": [_vector(i) for i in range(_count(asked.get("input")))]})
        case "/v1/rerank":
            await _json(talk, _scores(_count(asked.get("documents"))))
        case "/v1/systemone":
            answers = {name: _decided(question) for name, question in asked["questions"].items()}
            await _json(talk, {"answers": answers, "usage": {"input_tokens": 3}})
        case "/v1/images/generations":
            wanted = str(asked.get("size", "16x12")).split("x")
            size = [int(side) if side.isdigit() and 0 < int(side) < 100 else 1 for side in wanted]
            image = {"b64_json": text_of(png(size[0], size[-1]))}
            await _json(talk, {"created": 1, "data": [image], "seed": asked.get("seed", 7)})
        case path if path in ROUTES:
            await _json(talk, {"id": "x", "output": [], "text": "hello", "input_tokens": 3})
        case path:
            await talk.whole(404, json.dumps({"error": {"message": path}}).encode())


async def _json(talk: Conversation, body: Any) -> None:
    await talk.whole(200, json.dumps(body).encode())


def _count(items: Any) -> int:
    return len(items) if isinstance(items, list) else 1


def _vector(index: int) -> dict[str, Any]:
    return {"index": index, "object": "embedding", "embedding": [3.0, 4.0, float(index)]}


def _scores(count: int) -> dict[str, Any]:
    results = [{"index": index, "relevance_score": index / 8} for index in range(count)]
    return {"results": results, "usage": {"prompt_tokens": 7}}


def _decided(question: dict[str, Any]) -> dict[str, Any]:
    """An answer that is certain of the first option."""
    match question["type"]:
        case "noul":
            return {"type": "noul", "noul": 0.75}
        case "choice":
            sure = {name: float(i == 0) for i, name in enumerate(question["criteria"])}
            return {"type": "choice", "choice": next(iter(sure)), "probabilities": sure} | _SURE
        case _:
            sure = {str(i): float(i == 0) for i in range(len(question["criteria"]))}
            legend = dict(zip(sure, question["criteria"], strict=True))
            return {"type": "score", "score": 0, "legend": legend, "probabilities": sure} | _SURE


_SURE = {"confidence": 1.0}


def coherent_models(url: str) -> list[ModelRecord]:
    """A model for each capability, and one for each way in which such a model is not there."""
    found = [
        external(url, "judge", None, model="judge"),
        external(url, "senses", "image-text-to-text", model="senses"),
        external(url, "dup", profile="p1"),
        external(url, "dup", profile="p2"),
        external(url, "org/name"),
    ]
    tasks = {
        "llm": "text-generation",
        "embedder": "feature-extraction",
        "ranker": "text-ranking",
        "painter": "text-to-image",
    }
    for alias, task in tasks.items():
        unloaded = served_model(f"unloaded-{alias}", uid=f"unloaded-{alias}", task=task)
        found += [
            external(url, alias, task),
            external(_NOWHERE, f"cold-{alias}", task),
            external(_NOWHERE, f"refused-{alias}", task, **_failed("NotAModel", "is a picture")),
            external(_NOWHERE, f"crashed-{alias}", task, **_failed("EngineFailed", "crashed")),
            ModelRecord(unloaded, "hash", ()),
        ]
    return found


#: Nothing listens there.
_NOWHERE = "http://127.0.0.1:1"


def _failed(reason: str, message: str) -> dict[str, Any]:
    return {"loadState": "failed", "error": {"reason": reason, "message": message}}
