"""Bodies of calls: what llama-server makes of them, where this library would do otherwise. Pure.

What a caller leaves out has the meaning that it has with llama-server: no penalty of repetitions,
an answer until the model ends it, another seed for each call. Vectors in base64 are written here.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
WORDS = {CHAT: "chat completion", COMPLETIONS: "completion", EMBEDDINGS: "embeddings"}
FORMATS = ("float", "base64")


class Unfit(ValueError):
    """A body that the engine cannot work on; the message names the member."""


def complete(path: str, body: Mapping[str, object], seed: int) -> dict[str, object]:
    """The body with what it leaves out. Raises `Unfit` for a value that would be ignored."""
    if path == EMBEDDINGS:
        wanted = body.get("encoding_format")
        if wanted is not None and wanted not in FORMATS:
            raise Unfit(f"encoding_format is one of {', '.join(FORMATS)}")
        if body.get("dimensions") is not None:
            raise Unfit("dimensions cannot be asked for: vectors have the model's width")
        return dict(body)
    if body.get("n") not in (None, 1):
        raise Unfit("n is 1: one answer is made at a time")
    defaults = {"repeat_penalty": 1.0, "seed": seed, "max_tokens": None}
    given = {name: value for name, value in body.items() if value is not None}
    limit = given.pop("max_completion_tokens", None)
    return {**defaults, **({} if limit is None else {"max_tokens": limit}), **given}


def in_base64(answer: Mapping[str, object]) -> dict[str, object]:
    """An answer of embeddings with each vector as little-endian floats of 32 bits, in base64."""
    data = answer["data"]
    if not isinstance(data, list):
        raise TypeError("an answer of embeddings has a list of them")
    return {**answer, "data": [{**entry, "embedding": _packed(entry)} for entry in data]}


def _packed(entry: Mapping[str, list[float]]) -> str:
    vector = entry["embedding"]
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
