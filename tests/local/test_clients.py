"""Clients that people use, unmodified: the official OpenAI client, and rerank calls as Cohere and
Jina document them. What they are told must have the effect in them that it is meant to have."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.routers import RunningRouter, external, running_router
from support.serve import Serving, manifest, serve
from support.upstream import Conversation, ScriptedUpstream

#: One server for the module, hence one test process.
pytestmark = pytest.mark.xdist_group("clients")

MODELS = {
    "chat": ("tiny-chat", "text_generation"),
    "emb": ("tiny-embed", "text_embedding"),
    "rr": ("tiny-rerank", "rerank"),
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Serving]:
    documents = [
        manifest(alias, source={"path": str(tiny_models / f"{file}.gguf")})
        for alias, (file, _) in MODELS.items()
    ]
    documents.append(manifest("broken", source={"path": "gone.gguf"}))
    with serve(tmp_path_factory.mktemp("clients"), *documents) as running:
        for alias, (_, capability) in MODELS.items():
            running.until_available(alias, capability)
        running.until_row("broken", load_state="failed")
        yield running
        assert running.end() == 0


@pytest.fixture(scope="module")
def client(serving: Serving) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="any") as made:
        yield made


HI: Any = [{"role": "user", "content": "hi"}]


def test_chat_finite_and_streamed(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="chat", messages=HI, max_tokens=12, temperature=0)
    assert whole.choices[0].finish_reason == "length"
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 12
    pieces: list[str] = []
    with client.chat.completions.create(
        model="chat",
        messages=HI,
        max_tokens=12,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        chunks = list(stream)
    for chunk in chunks:
        pieces += [choice.delta.content or "" for choice in chunk.choices]
    text = whole.choices[0].message.content or ""
    assert text.startswith("".join(pieces))
    assert len([p for p in pieces if p]) > 1
    assert [c.usage.completion_tokens for c in chunks if c.usage is not None] == [12]


def test_completions_finite_and_streamed(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="chat", prompt="hello", max_tokens=3, temperature=0)
    with client.completions.create(
        model="chat", prompt="hello", max_tokens=3, temperature=0, stream=True
    ) as stream:
        text = "".join(choice.text for chunk in stream for choice in chunk.choices)
    assert text == whole.choices[0].text != ""


def test_embeddings(client: openai.OpenAI, serving: Serving) -> None:
    """The client asks for base64 unless it is told otherwise, and gives floats either way."""
    texts = ["one", "two"]
    packed = client.embeddings.create(model="emb", input=texts)
    listed = client.embeddings.create(model="emb", input=texts, encoding_format="float")
    assert [len(entry.embedding) for entry in packed.data] == [64, 64]
    for a, b in zip(packed.data, listed.data, strict=True):
        assert a.index == b.index
        assert a.embedding == pytest.approx(b.embedding, abs=1e-6)
    assert packed.usage.prompt_tokens > 0
    raw = serving.client.post(
        f"{serving.url}/v1/embeddings",
        json={"model": "emb", "input": "one", "encoding_format": "base64"},
    )
    assert isinstance(raw.json()["data"][0]["embedding"], str)


def test_models(client: openai.OpenAI) -> None:
    assert sorted(model.id for model in client.models.list()) == sorted(MODELS)
    one = client.models.retrieve("emb")
    assert (one.id, one.object, one.owned_by) == ("emb", "model", "pumas")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("absent")


@pytest.mark.parametrize(
    ("call", "error", "code", "outcome"),
    [
        (
            lambda c: c.chat.completions.create(model="absent", messages=HI),
            openai.NotFoundError,
            "model_not_found",
            "not_admitted",
        ),
        (
            lambda c: c.chat.completions.create(model="emb", messages=HI),
            openai.BadRequestError,
            "endpoint_unavailable",
            "not_admitted",
        ),
        (
            lambda c: c.embeddings.create(model="chat", input="a"),
            openai.BadRequestError,
            "endpoint_unavailable",
            "not_admitted",
        ),
        (
            lambda c: c.completions.create(model="broken", prompt="a"),
            openai.InternalServerError,
            "model_load_failed",
            "not_admitted",
        ),
        (
            lambda c: c.post("/nothing", body={}, cast_to=object),
            openai.NotFoundError,
            "not_found",
            "not_admitted",
        ),
        (
            lambda c: c.embeddings.create(model="emb", input="a " * 600),
            openai.InternalServerError,
            "500",
            "unknown",
        ),
        (
            lambda c: c.completions.create(model="chat", prompt=[]),
            openai.BadRequestError,
            "400",
            "unknown",
        ),
    ],
)
def test_errors_raise_what_they_mean(
    client: openai.OpenAI,
    call: Any,
    error: type[openai.APIStatusError],
    code: str,
    outcome: str,
) -> None:
    """Each is asked once, also what cannot have had an effect: it would be refused again."""
    asked: list[Any] = []
    client._client.event_hooks = {"request": [asked.append]}
    try:
        with pytest.raises(error) as raised:
            call(client)
    finally:
        client._client.event_hooks = {}
    assert len(asked) == 1
    assert raised.value.code == code
    assert raised.value.response.headers["x-pumas-outcome"] == outcome
    assert raised.value.response.headers["x-should-retry"] == "false"


@asynccontextmanager
async def before_a_provider(
    script: Any,
) -> AsyncIterator[tuple[openai.AsyncOpenAI, ScriptedUpstream, RunningRouter]]:
    """The client, with its own default of retries, a router, and a provider that counts."""
    async with (
        ScriptedUpstream(script).serving() as upstream,
        running_router(external(upstream.url)) as running,
        openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{running.port}/v1", api_key="any") as client,
    ):
        yield client, upstream, running


async def test_the_client_retries_unless_it_is_told_not_to() -> None:
    """Else the tests below prove nothing."""

    async def fail(talk: Conversation) -> None:
        await talk.send(
            b"HTTP/1.1 500 X\r\nretry-after-ms: 1\r\ncontent-type: application/json\r\n"
            b"content-length: 2\r\n\r\n{}"
        )

    async with (
        ScriptedUpstream(fail).serving() as upstream,
        openai.AsyncOpenAI(base_url=f"{upstream.url}/v1", api_key="any") as client,
    ):
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(model="m", messages=HI)
        assert len(upstream.seen) == 3


@pytest.mark.parametrize("status", [400, 404, 408, 409, 429, 500, 502, 503, 504])
async def test_what_a_provider_refused_is_asked_once(status: int) -> None:
    told = json.dumps({"error": {"message": "not today", "type": "x", "code": "c"}}).encode()

    async def refuse(talk: Conversation) -> None:
        await talk.whole(status, told)

    async with before_a_provider(refuse) as (client, upstream, running):
        with pytest.raises(openai.APIStatusError) as raised:
            await client.chat.completions.create(model="llm", messages=HI)
        assert raised.value.status_code == status
        assert raised.value.response.content == told
        assert raised.value.response.headers["x-pumas-outcome"] == "unknown"
        assert len(upstream.seen) == 1
        await running.idle()


async def cut_before_the_answer(talk: Conversation) -> None:
    talk.reset()


async def cut_within_the_answer(talk: Conversation) -> None:
    await talk.head(content_type="application/json")
    await talk.chunk(b'{"choices":')
    talk.reset()


async def redirect(talk: Conversation) -> None:
    await talk.head(307, location="/v1/elsewhere")
    await talk.end()


@pytest.mark.parametrize("script", [cut_before_the_answer, cut_within_the_answer, redirect])
async def test_what_may_have_had_an_effect_is_asked_once(script: Any) -> None:
    async with before_a_provider(script) as (client, upstream, running):
        with pytest.raises(openai.InternalServerError) as raised:
            await client.chat.completions.create(model="llm", messages=HI)
        assert raised.value.status_code == 502
        assert raised.value.response.headers["x-pumas-outcome"] == "unknown"
        assert len(upstream.seen) == 1
        await running.idle()


async def test_a_stream_that_breaks_is_an_error_and_asked_once() -> None:
    async def break_off(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(
            b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
        )
        talk.reset()

    async with before_a_provider(break_off) as (client, upstream, running):
        got: list[str] = []
        stream = await client.chat.completions.create(model="llm", messages=HI, stream=True)
        with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):
            async for chunk in stream:
                got += [choice.delta.content or "" for choice in chunk.choices]
        assert got == ["a"]
        assert len(upstream.seen) == 1
        await running.idle()


async def test_an_alias_under_two_profiles_is_a_conflict_and_asked_once() -> None:
    async with (
        ScriptedUpstream().serving() as upstream,
        running_router(external(upstream.url), external(upstream.url, profile="other")) as running,
        openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{running.port}/v1", api_key="any") as client,
    ):
        asked: list[Any] = []

        async def note(request: Any) -> None:
            asked.append(request)

        client._client.event_hooks["request"].append(note)
        with pytest.raises(openai.ConflictError) as raised:
            await client.chat.completions.create(model="llm", messages=HI)
        assert raised.value.code == "ambiguous_model"
        assert (len(asked), upstream.seen) == (1, [])
        both = await client.chat.completions.with_raw_response.create(
            model="llm@other", messages=HI, stream=True
        )
        assert both.status_code == 200


DOCUMENTS = ["the moon and the night", "bread", "stars"]


@pytest.mark.parametrize(
    "asked",
    [
        {"query": "night", "documents": DOCUMENTS, "top_n": 2},
        {"query": "night", "documents": DOCUMENTS, "top_n": 2, "return_documents": False},
        {"query": "night", "documents": DOCUMENTS, "top_n": 2, "max_chunks_per_doc": 10},
    ],
)
def test_a_rerank_call_as_its_vendors_document_it(serving: Serving, asked: dict[str, Any]) -> None:
    answer = httpx.post(
        f"{serving.url}/v1/rerank",
        json={"model": "rr", **asked},
        headers={"Authorization": "Bearer any", "Accept": "application/json"},
    )
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert len(results) == 2
    scores = [entry["relevance_score"] for entry in results]
    assert scores == sorted(scores, reverse=True)
    content = {"kind": "rerank", "query": "night", "documents": DOCUMENTS}
    typed = serving.operate(
        model="rr",
        capability="rerank",
        output="relevance_scores",
        input=content,
        options={"kind": "rerank", "top_n": 2},
    )
    assert [(r["index"], r["relevance_score"]) for r in results] == [
        (r["index"], r["relevance_score"]) for r in typed.json()["result"]["results"]
    ]


def test_a_rerank_call_that_is_wrong(serving: Serving) -> None:
    """The engine's own refusal, byte for byte, and what it did to the engine."""
    answer = httpx.post(f"{serving.url}/v1/rerank", json={"model": "rr", "query": "night"})
    assert answer.status_code == 400
    assert "documents" in answer.json()["error"]["message"]
    assert answer.headers["x-pumas-outcome"] == "unknown"
