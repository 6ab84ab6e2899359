"""What an `external` server says of itself, asked over sockets, and what follows from it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from pumas_crds.vocabulary import LoadState
from pumas_server.router import workers as workers_module
from pumas_server.router.catalog import Catalog
from pumas_server.router.catalog_row import Row
from support.eventually import eventually
from support.routers import RunningRouter, chat_operation, external, running_router
from support.upstream import Conversation, ScriptedUpstream


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream().serving() as scripted:
        yield scripted


async def until(running: RunningRouter, holds: Callable[[Row], bool]) -> Row:
    def look(catalog: Catalog) -> bool:
        return bool(catalog.rows) and holds(catalog.rows[0])

    return (await running.until(look)).rows[0]


def reasons(row: Row) -> dict[str, str]:
    """By capability: `available`, or why not."""
    return {
        d.capability: getattr(d.availability, "reason", d.availability.state)
        for d in row.descriptors
    }


def listing(**members: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "served", **members}]}


def architecture(inputs: list[str], outputs: list[str]) -> dict[str, Any]:
    return {"architecture": {"input_modalities": inputs, "output_modalities": outputs}}


async def silent(talk: Conversation) -> None:
    await talk.caller_left()


async def test_a_silent_server_is_loading_and_recovers(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_module, "_ASK_SECONDS", 0.05)
    monkeypatch.setattr(workers_module, "FIRST_ANSWER_SECONDS", 0.05)
    upstream.listing = silent
    async with running_router(external(upstream.url), ready=False) as running:
        row = await until(running, lambda r: r.error is not None)
        assert row.load_state is LoadState.LOADING
        assert row.error is not None
        assert row.error.reason == "NoEndpoint"
        assert reasons(row)["chat_generation"] == "runtime_unavailable"
        assert row.entry.load_state == "loading"
        assert json.loads((await running.get("/v1/models"))[2])["data"] == []
        status, body = await running.operate(chat_operation())
        assert (status, body["error"]["outcome"]) == (503, "not_admitted")
        status, headers, raw = await running.post("/v1/chat/completions", {"model": "llm"})
        assert (status, json.loads(raw)["error"]["code"]) == (503, "capability_unavailable")
        assert headers["retry-after"]
        assert upstream.seen == []
        upstream.listing = None
        row = await until(running, lambda r: bool(r.targets))
        assert (row.load_state, row.error) == (LoadState.LOADED, None)
        assert (await running.operate(chat_operation()))[0] == 200


async def test_it_is_asked_at_once_by_get_only(upstream: ScriptedUpstream) -> None:
    async with running_router(external(upstream.url)):
        assert upstream.asked == 1
        assert upstream.seen == []


async def test_a_server_that_goes_is_noticed_by_the_call_that_meets_it(
    upstream: ScriptedUpstream,
) -> None:
    gone = ScriptedUpstream()
    async with gone.serving():
        context = running_router(external(gone.url))
        running = await context.__aenter__()
    try:
        # Its answer was good for ten seconds; the refused connection makes the router look again.
        assert (await running.operate(chat_operation()))[0] == 503
        row = await until(running, lambda r: not r.targets)
        assert row.load_state is LoadState.LOADING
        assert gone.seen == []
    finally:
        await context.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"object": "list", "data": [{"id": "a"}, {"id": "b"}]}, "does not list the model"),
        ({"object": "list", "data": []}, "does not list the model"),
        ({"object": "list"}, "no list of models"),
        ([], "no list of models"),
    ],
)
async def test_a_server_that_does_not_have_the_model(
    upstream: ScriptedUpstream, told: Any, problem: str
) -> None:
    upstream.models = told
    async with running_router(external(upstream.url), ready=False) as running:
        row = await until(running, lambda r: r.error is not None)
        assert row.error is not None
        assert problem in row.error.message
        assert row.load_state is LoadState.LOADING
        assert (await running.operate(chat_operation()))[0] == 503


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 307 X\r\nlocation: /v1/models\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 X\r\ncontent-length: 1\r\n\r\n{",
        b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 X\r\ncontent-length: 200000\r\n\r\n" + b"[" * 200_000,
        b"nonsense\r\n\r\n",
    ],
    ids=["500", "redirect", "broken JSON", "broken framing", "deep JSON", "no HTTP"],
)
async def test_a_bad_listing_does_not_end_the_asking(
    upstream: ScriptedUpstream,
    answer: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(workers_module, "_ASK_SECONDS", 0.2)
    monkeypatch.setattr(workers_module, "FIRST_ANSWER_SECONDS", 0.02)

    async def bad(talk: Conversation) -> None:
        await talk.send(answer)

    upstream.listing = bad
    async with running_router(external(upstream.url), ready=False) as running:
        row = await until(running, lambda r: r.error is not None)
        assert row.error is not None
        assert "127.0.0.1" not in row.error.message
        upstream.listing = None
        await until(running, lambda r: bool(r.targets))
        assert not caplog.records


ARCHITECTURES: dict[str, tuple[str | None, dict[str, Any], dict[str, str], list[str]]] = {
    "text": (
        None,
        architecture(["text"], ["text"]),
        {
            "chat_generation": "available",
            "text_generation": "available",
            "image_to_text": "model_task_mismatch",
        },
        ["text"],
    ),
    "sees": (
        None,
        architecture(["text", "image"], ["text"]),
        {"chat_generation": "available", "image_to_text": "available"},
        ["text"],
    ),
    "should see and does not": (
        "image-text-to-text",
        architecture(["text"], ["text"]),
        {"chat_generation": "available", "image_to_text": "runtime_unavailable"},
        ["text"],
    ),
    "embeds what it hears": (
        "feature-extraction",
        architecture(["text", "audio"], ["vector"]),
        {
            "chat_generation": "model_task_mismatch",
            "text_embedding": "available",
            "multimodal_embedding": "available",
        },
        ["vector"],
    ),
    "decides": (
        None,
        architecture(["text"], ["decisions"]),
        {"chat_generation": "model_task_mismatch", "decision": "available"},
        ["json"],
    ),
    "gives no text": (
        None,
        architecture(["text"], ["vector"]),
        {"chat_generation": "unknown_model_task", "text_generation": "unknown_model_task"},
        ["vector"],
    ),
    "gives nothing": (
        None,
        architecture(["text"], []),
        {"chat_generation": "unknown_model_task"},
        [],
    ),
    "takes nothing": (
        "text-generation",
        architecture([], ["text"]),
        {"chat_generation": "runtime_unavailable"},
        ["text"],
    ),
    "a recorded task comes first": (
        "feature-extraction",
        architecture(["text"], ["text"]),
        {"chat_generation": "model_task_mismatch", "text_embedding": "available"},
        ["vector"],
    ),
    "a task that offers nothing": (
        "text-classification",
        architecture(["text"], ["text"]),
        {"chat_generation": "model_task_mismatch"},
        ["text"],
    ),
    "no architecture": (
        None,
        {},
        {"chat_generation": "unknown_model_task", "text_generation": "unknown_model_task"},
        [],
    ),
    "no architecture but a task": (
        "text-generation",
        {},
        {"chat_generation": "available", "text_generation": "available"},
        ["text"],
    ),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
async def test_capabilities_follow_what_it_publishes(upstream: ScriptedUpstream, name: str) -> None:
    task, members, expected, outputs = ARCHITECTURES[name]
    upstream.models = listing(**members)
    async with running_router(external(upstream.url, task=task)) as running:
        _, _, raw = await running.get("/v1/capabilities?model=llm")
        body = json.loads(raw)
        assert body["modalities"]["output"] == outputs
        told = {
            c["capability"]: c["availability"].get("reason", "available")
            for c in body["capabilities"]
        }
        assert {capability: told[capability] for capability in expected} == expected
        status, answer = await running.operate(chat_operation())
        wanted = expected["chat_generation"]
        assert status == (200 if wanted == "available" else 503)
        if status == 503:
            assert wanted in answer["error"]["message"]
            assert upstream.seen == []


async def test_changed_modalities_change_the_reasons(
    upstream: ScriptedUpstream,
) -> None:
    upstream.models = listing(**architecture(["text"], ["text"]))
    record = external(upstream.url, task=None)
    async with running_router(record) as running:
        assert (await running.operate(chat_operation()))[0] == 200
        upstream.models = listing(**architecture(["text"], ["decisions"]))
        running.router.workers.unreachable(record.endpoints[0])
        row = await until(running, lambda r: "json" in r.modalities.output)
        assert reasons(row)["chat_generation"] == "model_task_mismatch"
        assert (await running.operate(chat_operation()))[0] == 503
        assert len(upstream.seen) == 1


async def test_a_new_spec_is_not_judged_by_what_was_said_for_the_old_one(
    upstream: ScriptedUpstream,
) -> None:
    upstream.models = {
        "data": [
            {"id": "served", **architecture(["text"], ["text"])},
            {"id": "decider", **architecture(["text"], ["decisions"])},
        ]
    }
    old = external(upstream.url, task=None)
    new = replace(external(upstream.url, task=None, model="decider"), spec_hash="other")
    async with running_router(old) as running:
        running.source.put(new)
        row = await until(running, lambda r: r.upstream_model == "decider")
        assert reasons(row)["chat_generation"] != "available"
        row = await until(running, lambda r: bool(r.targets))
        assert reasons(row)["decision"] == "available"


async def test_words_that_no_modality_can_be(upstream: ScriptedUpstream) -> None:
    odd = ["text", 7, None, "\ud800", "ünicode", "x" * 5000, *map(str, range(100))]
    upstream.models = listing(
        **architecture(odd, ["text"]), meta={"n_ctx": True}, aliases="not a list"
    )
    async with running_router(external(upstream.url, task=None)) as running:
        status, _, raw = await running.get("/v1/served-models")
        assert status == 200
        (model,) = json.loads(raw)["models"]
        assert "context_tokens" not in model
        assert model["modalities"]["input"][:2] == ["text", "x" * 128]
        assert len(model["modalities"]["input"]) == 16


async def test_two_models_of_one_server(upstream: ScriptedUpstream) -> None:
    upstream.models = {"data": [{"id": "a"}, {"id": "b:latest"}, {"id": "c", "aliases": ["d"]}]}
    models = [
        external(upstream.url, "one", model="a"),
        external(upstream.url, "two", model="b"),
        external(upstream.url, "three", model="d"),
        external(upstream.url, "four", model="absent"),
    ]
    async with running_router(*models, ready=False) as running:
        await running.until(
            lambda c: len(c.rows) == 4 and all(r.targets or r.error for r in c.rows)
        )
        loaded = {r.alias for r in running.router.workers.catalog.rows if r.targets}
        assert loaded == {"one", "two", "three"}
        assert (await running.operate(chat_operation(model="two")))[0] == 200
        assert upstream.seen[0].json["model"] == "b"


async def test_a_refused_external_model_stays_refused(upstream: ScriptedUpstream) -> None:
    fault = {"reason": "EndpointNotAllowed", "message": "its host is not allowed"}
    record = external(upstream.url, loadState="failed", error=fault)
    async with running_router(replace(record, endpoints=()), ready=False) as running:
        row = await until(running, lambda r: True)
        assert row.load_state is LoadState.FAILED
        assert (await running.operate(chat_operation()))[0] == 503
        status, _, raw = await running.post("/v1/chat/completions", {"model": "llm"})
        assert (status, json.loads(raw)["error"]["code"]) == (500, "model_load_failed")
        await eventually(lambda: upstream.asked == 0, "nobody asks it")
