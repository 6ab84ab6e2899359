"""Images that a provider gives, over real sockets: what is no such image is told and asked for once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from support.eventually import eventually
from support.routers import SHARED_LOOP, chat_operation, external, running_router
from support.senses import jpeg, png, text_of
from support.upstream import Conversation, Script, ScriptedUpstream

pytestmark = SHARED_LOOP


def drawing(**options: Any) -> dict[str, Any]:
    return chat_operation(
        capability="image_generation",
        input={"kind": "text", "text": "a cat"},
        output="png_base64",
        options={"kind": "image_generation", "width": 16, "height": 12, **options},
    )


def saying(body: bytes, status: int = 200, content_type: str = "application/json") -> Script:
    async def script(talk: Conversation) -> None:
        await talk.whole(status, body, content_type)

    return script


def drawn(text: Any, **members: Any) -> bytes:
    return json.dumps({"created": 1, "data": [{"b64_json": text}], **members}).encode()


async def draw(upstream: ScriptedUpstream, script: Script, **options: Any) -> tuple[int, Any]:
    """The answer for an image of a provider that follows the script."""
    upstream.seen.clear()
    upstream.script = script
    async with running_router(external(upstream.url, task="text-to-image")) as running:
        found = await running.operate(drawing(**options))
        await running.idle()
    return found


def flipped(raw: bytes) -> bytes:
    return raw[:29] + bytes([raw[29] ^ 1]) + raw[30:]


INCOHERENT = {
    "a value that is no number": (b'{"created":1,"data":[{"b64_json":NaN}]}', ""),
    "null": (drawn(None), "gave no image"),
    "an image that could not be": (drawn(None, problem="pixels are NaN"), "pixels are NaN"),
    "no images": (b'{"data":[]}', "exactly one image"),
    "two images": (
        json.dumps({"data": [{"b64_json": text_of(png())}] * 2}).encode(),
        "exactly one image",
    ),
    "another size": (drawn(text_of(png(12, 16))), "12x16 instead of 16x12"),
    "another seed": (drawn(text_of(png()), seed=8), "another seed"),
    "a seed that is none": (drawn(text_of(png()), seed=-7), "seed"),
    "a truncated png": (drawn(text_of(png()[:-1])), "not valid"),
    "a png with a wrong checksum": (drawn(text_of(flipped(png()))), "not valid"),
    "a jpeg": (drawn(text_of(jpeg())), "not valid"),
    "a url": (b'{"data":[{"url":"http://10.0.0.9/i.png"}]}', "gave no image"),
    "no json": (b"<html>", ""),
}


@pytest.mark.parametrize("name", INCOHERENT)
async def test_what_is_no_such_image(shared_upstream: ScriptedUpstream, name: str) -> None:
    body, words = INCOHERENT[name]
    status, answer = await draw(shared_upstream, saying(body), seed=7)
    error = answer["error"]
    assert (status, error["code"], error["outcome"]) == (502, "invalid_provider_result", "unknown")
    assert words in error["message"]
    assert "10.0.0.9" not in error["message"]
    assert len(shared_upstream.seen) == 1


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (saying(b'{"error":{"message":"out of memory"}}', 500), "provider_failure"),
        (saying(b'{"error":{"message":"busy"}}', 503), "provider_failure"),
        (saying(drawn(text_of(png())), content_type="text/html"), "provider_failure"),
        (saying(drawn(text_of(png()), error={"message": "x"})), "provider_failure"),
        (saying(b"{" + b" " * 33_554_432 + b"}"), "response_limit"),
    ],
)
async def test_what_is_no_answer(
    shared_upstream: ScriptedUpstream, script: Script, code: str
) -> None:
    status, answer = await draw(shared_upstream, script, seed=7)
    assert (status, answer["error"]["code"]) == (502, code)
    assert answer["error"]["outcome"] == "unknown"
    assert len(shared_upstream.seen) == 1


async def test_a_seed_that_the_provider_chose_is_told(shared_upstream: ScriptedUpstream) -> None:
    status, answer = await draw(shared_upstream, saying(drawn(text_of(png()), seed=2**32 - 1)))
    assert status == 200, answer
    assert answer["result"]["seed"] == 2**32 - 1
    assert "seed" not in shared_upstream.seen[0].json


async def test_a_caller_that_leaves_is_not_drawn_for(shared_upstream: ScriptedUpstream) -> None:
    left = asyncio.Event()

    async def silent(talk: Conversation) -> None:
        await talk.caller_left()
        left.set()

    shared_upstream.seen.clear()
    shared_upstream.script = silent
    async with running_router(external(shared_upstream.url, task="text-to-image")) as running:
        async with running.raw("/v1/model-operations", drawing()):
            await eventually(lambda: len(shared_upstream.seen) == 1, "the provider is asked")
        async with asyncio.timeout(1):
            await left.wait()
        await running.idle()
    assert len(shared_upstream.seen) == 1
