"""The operations that `pumas serve` makes itself: a streamed text, and vectors to compare."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Sequence
from operator import mul

import aiohttp

from pumas_server.contract.bounds import CONTRACT_VERSION
from pumas_server.router.contract_api import PATH

MAX_TOKENS = 32


class NoAnswer(Exception):
    """The operation failed; the text is the contract's own reason."""


async def stream_answer(url: str, model: str, profile: str, prompt: str) -> AsyncIterator[str]:
    """The pieces of one `text_generation`, as they come. Raises `NoAnswer`."""
    operation = {
        "contract_version": CONTRACT_VERSION,
        "request_id": "pumas-serve:first-answer",
        "model": model,
        "profile": profile,
        "capability": "text_generation",
        "input": {"kind": "text", "text": prompt},
        "output": "text",
        "options": {"kind": "text_generation", "max_tokens": MAX_TOKENS, "temperature": 0},
        "stream": True,
    }
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as client,
        client.post(url + PATH, json=operation) as answer,
    ):
        if answer.status != 200:
            body = await answer.json()
            raise NoAnswer(body["error"]["message"])
        async for line in answer.content:
            if not line.startswith(b"data: "):
                continue
            record = json.loads(line.removeprefix(b"data: "))
            match record["kind"]:
                case "delta":
                    yield record["text"]
                case "failed":
                    raise NoAnswer(record["error"]["message"])
                case "completed":
                    return
    raise NoAnswer("the stream ended without a result")


async def ask_similarities(url: str, model: str, profile: str, texts: Sequence[str]) -> list[float]:
    """The cosine of the first text's vector with each other's. Raises `NoAnswer`."""
    operation = {
        "contract_version": CONTRACT_VERSION,
        "request_id": "pumas-serve:similarities",
        "model": model,
        "profile": profile,
        "input": {"kind": "text_batch", "texts": list(texts)},
        "output": "embeddings_float32",
    }
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as client,
        client.post(url + PATH, json=operation) as answer,
    ):
        body = await answer.json()
        if answer.status != 200:
            raise NoAnswer(body["error"]["message"])
    first, *others = body["result"]["vectors"]
    return [_cosine(first, other) for other in others]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / lengths if lengths else 0.0
