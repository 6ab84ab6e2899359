"""The first answer of `pumas serve --prompt`: one real streamed operation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

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
