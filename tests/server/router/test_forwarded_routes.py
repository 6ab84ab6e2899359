"""The forwarded routes: which there are, what each asks of a model, and bytes in, bytes out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from pumas_server.contract.words import Capability
from pumas_server.router.forwarded_routes import ROUTES
from support.routers import SHARED_LOOP, RunningRouter, external, running_router
from support.senses import png, text_of, wav
from support.upstream import Conversation, ScriptedUpstream

pytestmark = SHARED_LOOP

#: The table, as it is promised.
TABLE = {
    "/v1/chat/completions": ("chat_generation", (), "application/json"),
    "/v1/completions": ("text_generation", (), "application/json"),
    "/v1/embeddings": ("text_embedding", (), "application/json"),
    "/v1/rerank": ("rerank", (), "application/json"),
    "/v1/responses": ("chat_generation", (), "application/json"),
    "/v1/messages": ("chat_generation", (), "application/json"),
    "/v1/messages/count_tokens": ("chat_generation", (), "application/json"),
    "/v1/audio/transcriptions": ("chat_generation", ("audio",), "multipart/form-data"),
    "/v1/images/generations": ("image_generation", (), "application/json"),
}


async def test_the_table() -> None:
    assert {
        path: (route.capability.value, route.requires, route.body) for path, route in ROUTES.items()
    } == TABLE


PUBLISHED = {
    "served": (["text"], ["text"]),
    "hears": (["text", "audio"], ["text"]),
}
MODELS = {
    "object": "list",
    "data": [
        {"id": name, "architecture": {"input_modalities": takes, "output_modalities": gives}}
        for name, (takes, gives) in PUBLISHED.items()
    ],
}
#: A model that serves each capability.
SERVES = {
    Capability.CHAT_GENERATION: "llm",
    Capability.TEXT_GENERATION: "llm",
    Capability.TEXT_EMBEDDING: "emb",
    Capability.RERANK: "rr",
    Capability.IMAGE_GENERATION: "img",
}
TASKS = {
    "llm": ("text-generation", "served"),
    "hear": ("text-generation", "hears"),
    "emb": ("feature-extraction", "served"),
    "rr": ("text-ranking", "served"),
    "img": ("text-to-image", "served"),
}
JSON_ROUTES = sorted(path for path, route in ROUTES.items() if route.body == "application/json")
SPEECH = "/v1/audio/transcriptions"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(models=MODELS).serving() as scripted:
        yield scripted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(provider: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    records = [
        external(provider.url, alias, task, model=model) for alias, (task, model) in TASKS.items()
    ]
    async with running_router(*records) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def upstream(provider: ScriptedUpstream) -> ScriptedUpstream:
    provider.seen.clear()
    return provider


@pytest_asyncio.fixture(loop_scope="module")
async def router(served: RunningRouter) -> AsyncIterator[RunningRouter]:
    yield served
    await served.idle()


def model_of(path: str) -> str:
    return SERVES[ROUTES[path].capability]


def form(model: str, *fields: tuple[str, str], end: bytes = b"--the-boundary--\r\n") -> bytes:
    """A transcription as curl sends it."""
    parts = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode()
        for name, value in (("prompt", 'name="model"'), ("model", model), *fields)
    ]
    file = b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n'
    parts.insert(1, file + b"Content-Type: audio/wav\r\n\r\n" + wav())
    return b"".join(b"--the-boundary\r\n" + part + b"\r\n" for part in parts) + end


FORM = {"Content-Type": 'multipart/form-data; boundary="the-boundary"'}


@pytest.mark.parametrize("path", JSON_ROUTES)
async def test_bytes_pass_both_ways_and_only_the_models_name_is_replaced(
    router: RunningRouter, upstream: ScriptedUpstream, path: str
) -> None:
    before = '{"x" : "žluť\\u00e9 𝄞", "image_url":"data:,",\r\n"model":  '.encode()
    after = b' , "n":1.0e0, "y":{"model":"llm"}}\n'
    reply = '{"a":1.50,\r\n "a":"ž", "b":[]}\n'.encode()

    async def answer(talk: Conversation) -> None:
        await talk.whole(200, reply, "application/json; charset=utf-8")

    upstream.script = answer
    name = json.dumps(model_of(path)).encode()
    status, headers, raw = await router.post(path, before + name + after)
    assert (status, raw) == (200, reply), raw
    assert headers["content-type"] == "application/json; charset=utf-8"
    (seen,) = upstream.seen
    assert (seen.path, seen.body) == (path, before + b'"served"' + after)


@pytest.mark.parametrize("path", JSON_ROUTES)
async def test_a_stream_passes_as_it_is(
    router: RunningRouter, upstream: ScriptedUpstream, path: str
) -> None:
    # Of Responses and Messages, whose events have names and no [DONE].
    pieces = [
        b"event: message_start\r\n",
        b'data: {"type":"x", "t":"\xc5',
        b'\xbe"}\r\n\r\n: c\n\n',
    ]

    async def answer(talk: Conversation) -> None:
        await talk.head(200)
        for piece in pieces:
            await talk.chunk(piece)
        await talk.end()

    upstream.script = answer
    status, headers, raw = await router.post(path, {"model": model_of(path), "stream": True})
    assert (status, raw) == (200, b"".join(pieces))
    assert headers["content-type"] == "text/event-stream"


async def test_a_form_passes_byte_for_byte_and_only_the_models_name_is_replaced(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async def answer(talk: Conversation) -> None:
        await talk.whole(200, b'{"text": "words"}')

    upstream.script = answer
    status, _, raw = await router.post(SPEECH, form("hear", ("language", "en")), **FORM)
    assert (status, raw) == (200, b'{"text": "words"}')
    (seen,) = upstream.seen
    assert seen.headers["content-type"] == FORM["Content-Type"]
    assert (seen.path, seen.body) == (SPEECH, form("hears", ("language", "en")))


async def test_a_form_may_ask_for_a_stream(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async def answer(talk: Conversation) -> None:
        await talk.stream(b'data: {"type":"transcript.text.done"}\n\n')

    upstream.script = answer
    status, headers, raw = await router.post(SPEECH, form("hear", ("stream", "true")), **FORM)
    assert (status, raw) == (200, b'data: {"type":"transcript.text.done"}\n\n')
    assert headers["content-type"] == "text/event-stream"


async def untouched(
    router: RunningRouter, upstream: ScriptedUpstream, path: str, body: Any, **headers: str
) -> tuple[int, dict[str, Any]]:
    """Status and error of a request that no provider was connected to for."""
    connections = len(upstream.uses)
    status, told, raw = await router.post(path, body, **headers)
    assert (upstream.seen, len(upstream.uses)) == ([], connections), raw
    assert told["x-pumas-outcome"] == "not_admitted"
    error = json.loads(raw)["error"]
    assert {"message", "type", "code"} <= error.keys()
    return status, error


async def test_who_does_not_hear_transcribes_nothing(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    for model in ("llm", "emb", "img"):
        status, error = await untouched(router, upstream, SPEECH, form(model), **FORM)
        assert (status, error["code"]) == (400, "endpoint_unavailable")
        assert error["message"] == f"model `{model}` does not serve {SPEECH}"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (form("hear"), {}),
        (form("hear"), {"Content-Type": "application/json"}),
        (form("hear"), {"Content-Type": "multipart/form-data"}),
        (form("hear"), {"Content-Type": "multipart/form-data; boundary=another"}),
        (form("hear", end=b""), FORM),
        (form("hear", ("model", "llm")), FORM),
        (form(""), FORM),
        (b"", FORM),
        (b'{"model": "hear"}', FORM),
    ],
)
async def test_a_form_that_cannot_be_read(
    router: RunningRouter, upstream: ScriptedUpstream, body: bytes, headers: dict[str, str]
) -> None:
    status, error = await untouched(router, upstream, SPEECH, body, **headers)
    assert (status, error["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("path", JSON_ROUTES)
@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data; boundary=x", "Multipart/Form-Data", "multipart/form-data ;boundary=x"],
)
async def test_a_form_is_not_sent_where_json_is_taken(
    router: RunningRouter, upstream: ScriptedUpstream, path: str, content_type: str
) -> None:
    body = {"model": model_of(path)}
    kind = {"Content-Type": content_type}
    status, error = await untouched(router, upstream, path, body, **kind)
    assert (status, error["code"]) == (400, "invalid_request")
    assert "takes application/json" in error["message"]


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data-like",
        "odd",
    ],
)
async def test_other_types_of_a_body_go_on_as_they_are(
    router: RunningRouter, upstream: ScriptedUpstream, content_type: str
) -> None:
    async def answer(talk: Conversation) -> None:
        await talk.whole(200, b"{}")

    upstream.script = answer
    path = "/v1/completions"
    status, _, _ = await router.post(
        path, {"model": model_of(path)}, **{"Content-Type": content_type}
    )
    assert status == 200
    assert upstream.seen[-1].headers["content-type"] == content_type


def seen_by_chat(url: str) -> Any:
    return {"type": "image_url", "image_url": {"url": url}}


FETCHES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": [seen_by_chat("URL")]}]},
    "/v1/completions": {"prompt": "a", "image_url": "URL"},
    "/v1/embeddings": {"input": [{"content": [seen_by_chat("URL")]}]},
    "/v1/rerank": {"query": "q", "documents": [{"image_url": "URL"}]},
    "/v1/responses": {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "URL"}]}]
    },
    "/v1/messages": {
        "messages": [
            {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "URL"}}]}
        ]
    },
    "/v1/messages/count_tokens": {
        "messages": [{"role": "user", "content": [{"type": "input_audio",
                                                   "input_audio": {"data": "URL"}}]}]
    },
    "/v1/images/generations": {"prompt": "a", "image_url": {"url": "URL"}},
}  # fmt: skip


@pytest.mark.parametrize("path", JSON_ROUTES)
async def test_nothing_is_fetched_for_a_request(
    router: RunningRouter, upstream: ScriptedUpstream, path: str
) -> None:
    text = json.dumps({"model": model_of(path), **FETCHES[path]})
    body = text.replace("URL", "http://127.0.0.1:1/x.png").encode()
    status, error = await untouched(router, upstream, path, body)
    assert (status, error["code"]) == (400, "invalid_request")
    assert "nothing is fetched for a request" in error["message"]

    async def answer(talk: Conversation) -> None:
        await talk.whole(200, b"{}")

    upstream.script = answer
    body = text.replace("URL", "data:image/png;base64," + text_of(png())).encode()
    status, _, raw = await router.post(path, body)
    assert status == 200, raw
    assert text_of(png()).encode() in upstream.seen[0].body


async def test_content_that_ends_with_audio_is_not_embedded(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": text_of(wav()), "format": "wav"}}
    for members in ({"input": [{"content": [sound]}]}, {"content": {"content": [sound]}}):
        body = {"model": "emb", **members}
        status, error = await untouched(router, upstream, "/v1/embeddings", body)
        assert (status, error["code"]) == (400, "invalid_request")
        assert "may end with audio" in error["message"]


MANAGEMENT = [
    "/slots", "/slots/0", "/slots/0?action=erase", "/props", "/metrics/x", "/models", "/models/load",
    "/models/unload", "/lora-adapters", "/v1/systemone", "/v1/health", "/health", "/infill",
    "/completion", "/completions", "/chat/completions", "/embedding", "/embeddings", "/rerank",
    "/v1/reranking", "/reranking", "/tokenize", "/detokenize", "/apply-template", "/api/chat",
    "/api/show", "/api/tags", "/v1/messages/batches", "/v1/responses/1/cancel", "/v1/files",
    "/v1/audio/translations", "/v1/audio/speech", "/v1/images/edits", "/v1/images/variations",
    "/v1/chat/completions/", "/v1//chat/completions", "/v1/chat/completions/control",
    "/cors-proxy", "/tools",
]  # fmt: skip


@pytest.mark.parametrize("path", MANAGEMENT)
async def test_nothing_else_of_an_engine_can_be_reached(
    router: RunningRouter, upstream: ScriptedUpstream, path: str
) -> None:
    connections = len(upstream.uses)
    for method in ("GET", "POST", "PUT", "DELETE"):
        async with router.client.request(method, path, json={"model": "llm"}) as answer:
            assert answer.status in (404, 405), await answer.text()
            assert answer.status == 404 or method != "POST" or path.startswith("/metrics")
    assert (upstream.seen, len(upstream.uses)) == ([], connections)
