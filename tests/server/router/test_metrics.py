"""What `/metrics` says: names and labels that are a promise, and numbers that are the truth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from pumas_server.contract.errors import Code
from pumas_server.contract.words import Capability
from pumas_server.router.forwarded_routes import ROUTES
from pumas_server.router.refusals import Reason
from support.coherent import answer_coherently
from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, chat_operation, external, running_router
from support.upstream import Conversation, ScriptedUpstream, chat, say_hello

pytestmark = SHARED_LOOP

#: Name: type and label names. Dashboards are built on them: only added to, and on purpose.
GOLDEN = {
    "pumas_permits_in_use": ("gauge", set()),
    "pumas_permits": ("gauge", set()),
    "pumas_sessions": ("gauge", set()),
    "pumas_buffered_bytes": ("gauge", set()),
    "pumas_media_checks_in_use": ("gauge", set()),
    "pumas_media_checks": ("gauge", set()),
    "pumas_connections_in_use": ("gauge", set()),
    "pumas_connections": ("gauge", set()),
    "pumas_refusals": ("counter", {"reason"}),
    "pumas_pod_in_flight": ("gauge", {"model", "profile", "pod"}),
    "pumas_operations": ("counter", {"route", "capability", "code", "outcome"}),
    "pumas_operation_duration_seconds": ("histogram", {"route", "capability"}),
    "pumas_body_bytes": ("counter", {"route", "direction"}),
}
OPERATIONS = "/v1/model-operations"
CHAT = "/v1/chat/completions"

#: Every code that the router tells on the OpenAI routes beside the contract's, and success.
OWN_CODES = {"ok", "endpoint_unavailable", "model_not_ready", "model_load_failed", "internal_error"}


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(upstream: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    """A router that has counted nothing yet."""
    async with running_router(external(upstream.url)) as running:
        yield running
        await running.idle()
        for _, _, level in await samples(running, "pumas_pod_in_flight"):
            assert level == 0


async def families(running: RunningRouter) -> dict[str, Metric]:
    """What is told now, read as Prometheus reads it."""
    status, headers, raw = await running.get("/metrics")
    assert status == 200
    assert headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    return {family.name: family for family in text_string_to_metric_families(raw.decode())}


async def samples(running: RunningRouter, name: str) -> list[tuple[str, dict[str, str], float]]:
    family = (await families(running))[name]
    return [(sample.name, sample.labels, sample.value) for sample in family.samples]


async def operations(running: RunningRouter) -> dict[tuple[str, str, str, str], float]:
    """The count of finished calls by route, capability, code and outcome."""
    names = ("route", "capability", "code", "outcome")
    return {
        (labels[names[0]], labels[names[1]], labels[names[2]], labels[names[3]]): value
        for _, labels, value in await samples(running, "pumas_operations")
    }


async def level(running: RunningRouter, name: str) -> float:
    ((_, _, value),) = await samples(running, name)
    return value


async def body_bytes(running: RunningRouter, route: str) -> tuple[int, int]:
    """Request and response bytes."""
    found = {
        labels["direction"]: int(value)
        for _, labels, value in await samples(running, "pumas_body_bytes")
        if labels["route"] == route
    }
    return found["request"], found["response"]


async def durations(running: RunningRouter) -> dict[tuple[str, str], float]:
    return {
        (labels["route"], labels["capability"]): value
        for name, labels, value in await samples(running, "pumas_operation_duration_seconds")
        if name.endswith("_count")
    }


async def test_names_types_and_labels(fresh: RunningRouter) -> None:
    await fresh.operate(chat_operation())
    await fresh.idle()
    told = await families(fresh)
    found = {
        name: (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for name, family in told.items()
    }
    assert found == GOLDEN
    assert all(family.documentation for family in told.values())
    buckets = [
        s.labels["le"] for s in told["pumas_operation_duration_seconds"].samples if "le" in s.labels
    ]
    assert (buckets[0], buckets[-2:]) == ("0.005", ["300.0", "+Inf"])


async def test_the_page_for_operators_names_each_metric_and_label() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    rows = {row.split("`")[1]: row for row in page.splitlines() if row.startswith("| `pumas_")}
    assert {name.removesuffix("_total") for name in rows} == set(GOLDEN)
    for name, row in rows.items():
        kind, labels = GOLDEN[name.removesuffix("_total")]
        assert name.endswith("_total") is (kind == "counter")
        _, _, told, *_ = [cell.strip() for cell in row.strip("|").split("|")]
        assert f"| {kind} |" in row
        assert set(told.replace("`", "").split()) == labels


async def test_an_unused_router_tells_its_levels(fresh: RunningRouter) -> None:
    assert await level(fresh, "pumas_permits") == 1024
    for name in ("pumas_permits_in_use", "pumas_sessions", "pumas_buffered_bytes"):
        assert await level(fresh, name) == 0
    assert await samples(fresh, "pumas_pod_in_flight") == [
        ("pumas_pod_in_flight", {"model": "llm", "profile": "default", "pod": "external"}, 0)
    ]
    assert await operations(fresh) == {}


@pytest.mark.parametrize("route", [OPERATIONS, CHAT])
@pytest.mark.parametrize("stream", [False, True])
async def test_levels_while_a_call_is_open(
    fresh: RunningRouter, upstream: ScriptedUpstream, route: str, stream: bool
) -> None:
    go = asyncio.Event()

    async def waits(talk: Conversation) -> None:
        await go.wait()
        await answer_coherently(talk)

    upstream.script = waits
    body = (
        chat_operation(stream=stream) if route == OPERATIONS else {"model": "llm", "stream": stream}
    )
    raw = json.dumps(body).encode()
    call = asyncio.create_task(fresh.post(route, raw))
    await eventually(lambda: len(upstream.seen) == 1, "the call is admitted")
    for name in ("pumas_permits_in_use", "pumas_sessions", "pumas_pod_in_flight"):
        assert await level(fresh, name) == 1, name
    assert await level(fresh, "pumas_buffered_bytes") == len(raw)
    assert await operations(fresh) == {}
    go.set()
    assert (await call)[0] == 200
    await fresh.idle()
    for name in ("pumas_permits_in_use", "pumas_sessions", "pumas_pod_in_flight"):
        assert await level(fresh, name) == 0, name
    assert await level(fresh, "pumas_buffered_bytes") == 0
    assert await operations(fresh) == {(route, "chat_generation", "ok", "succeeded"): 1}


async def test_a_call_that_waits_for_its_body_has_no_permit(fresh: RunningRouter) -> None:
    async with fresh.raw(OPERATIONS, b"{", announced=10):
        await eventually(lambda: fresh.router.budget.held == 1, "its first byte is held")
        assert await level(fresh, "pumas_sessions") == 1
        assert await level(fresh, "pumas_permits_in_use") == 0
        assert await level(fresh, "pumas_buffered_bytes") == 1
    await fresh.idle()
    assert await operations(fresh) == {(OPERATIONS, "", "transport_lost", "not_admitted"): 1}


async def test_outcomes_by_capability_and_code(
    fresh: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async def reset(talk: Conversation) -> None:
        talk.reset()

    async def refuse(talk: Conversation) -> None:
        await talk.whole(429, b"{}")

    async def half(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("first"))
        talk.cut()

    async def leave(route: str, body: Any) -> None:
        upstream.script = lambda talk: talk.caller_left()
        before = len(upstream.seen)
        async with fresh.raw(route, body):
            await eventually(lambda: len(upstream.seen) == before + 1, "it was sent")
        await fresh.idle()

    for _ in range(3):
        await fresh.operate(chat_operation())
    await fresh.stream(chat_operation())
    await fresh.operate(chat_operation(model="nobody"))
    await fresh.operate(b"no JSON")
    await fresh.post(CHAT, {"model": "nobody"})
    await fresh.post("/v1/rerank", {"model": "llm"})
    upstream.script = reset
    await fresh.operate(chat_operation())
    upstream.script = half
    await fresh.stream(chat_operation())
    with pytest.raises(aiohttp.ClientPayloadError):
        await fresh.post(CHAT, {"model": "llm", "stream": True})
    upstream.script = refuse
    await fresh.operate(chat_operation())
    await fresh.post(CHAT, {"model": "llm"})
    await leave(OPERATIONS, chat_operation())
    await leave(OPERATIONS, chat_operation(stream=True))
    await leave(CHAT, {"model": "llm"})
    await fresh.idle()
    chatting = "chat_generation"
    assert await operations(fresh) == {
        (OPERATIONS, chatting, "ok", "succeeded"): 4,
        (OPERATIONS, "", "model_not_found", "not_admitted"): 1,
        (OPERATIONS, "", "invalid_request", "not_admitted"): 1,
        (OPERATIONS, chatting, "transport_lost", "unknown"): 4,
        (OPERATIONS, chatting, "provider_failure", "unknown"): 1,
        (CHAT, chatting, "model_not_found", "not_admitted"): 1,
        (CHAT, chatting, "transport_lost", "unknown"): 2,
        (CHAT, chatting, "provider_failure", "unknown"): 1,
        ("/v1/rerank", "rerank", "endpoint_unavailable", "not_admitted"): 1,
    }


async def test_bytes_are_right_to_the_byte(
    fresh: RunningRouter, upstream: ScriptedUpstream
) -> None:
    upstream.script = answer_coherently
    asked = answered = 0
    for body in (chat_operation(), chat_operation(stream=True), chat_operation(x="é" * 999), b"{"):
        raw = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        asked += len(raw)
        answered += len((await fresh.post(OPERATIONS, raw))[2])
    await fresh.idle()
    assert await body_bytes(fresh, OPERATIONS) == (asked, answered)
    asked = answered = 0
    for body in ({"model": "llm"}, {"model": "llm", "stream": True}, {"model": "nobody"}):
        raw = json.dumps(body).encode()
        asked += len(raw)
        answered += len((await fresh.post(CHAT, raw))[2])
    await fresh.idle()
    assert await body_bytes(fresh, CHAT) == (asked, answered)


async def test_bytes_of_an_answer_that_is_too_long(
    fresh: RunningRouter, upstream: ScriptedUpstream
) -> None:
    """What is over the bound was not sent, and is not counted."""
    bound = 33_554_432

    async def endless(talk: Conversation) -> None:
        talk.keep = False
        await talk.head()
        try:
            for _ in range(40):
                await talk.chunk(b"x" * 1_000_000)
        except ConnectionError:
            return

    upstream.script = endless
    got = 0
    with pytest.raises(aiohttp.ClientPayloadError):
        async with fresh.client.post(CHAT, json={"model": "llm", "stream": True}) as answer:
            async for piece in answer.content.iter_any():
                got += len(piece)
    await fresh.idle()
    _, counted = await body_bytes(fresh, CHAT)
    assert got <= counted <= bound
    assert await operations(fresh) == {(CHAT, "chat_generation", "response_limit", "unknown"): 1}


async def test_each_call_has_one_duration(fresh: RunningRouter, upstream: ScriptedUpstream) -> None:
    held = 0.05

    async def slow(talk: Conversation) -> None:
        await asyncio.sleep(held)
        await say_hello(talk)

    await fresh.operate(chat_operation())
    await fresh.operate(b"no JSON")
    await fresh.post(CHAT, {"model": "nobody"})
    upstream.script = slow
    await fresh.stream(chat_operation())
    await fresh.idle()
    assert await durations(fresh) == {
        (OPERATIONS, "chat_generation"): 2,
        (OPERATIONS, ""): 1,
        (CHAT, "chat_generation"): 1,
    }
    ((_, _, total),) = [
        sample
        for sample in await samples(fresh, "pumas_operation_duration_seconds")
        if sample[0].endswith("_sum")
        and sample[1] == {"route": OPERATIONS, "capability": "chat_generation"}
    ]
    assert held <= total < 5


async def test_callers_make_no_labels_and_secrets_stay_out(
    fresh: RunningRouter, upstream: ScriptedUpstream
) -> None:
    hostile = [
        'a"} 1\npumas_permits 5\n',
        "x" * 100_000,
        "\\",
        "\u2028",
        "secret-sk-123",
        "/etc/passwd",
    ]
    for index, word in enumerate(hostile):
        await fresh.operate(chat_operation(model=word, request_id=f"sk-{index}"))
        await fresh.operate(chat_operation(capability=word))
        await fresh.operate(chat_operation(profile="nobodys"))
        await fresh.post(CHAT, {"model": word}, authorization=f"Bearer secret-{index}")
        await fresh.get("/v1/models/" + word.encode().hex())

    async def tell(talk: Conversation) -> None:
        error = {"error": {"message": f"no {upstream.url} /srv/weights sk-secret-1", "code": "new"}}
        await talk.whole(400, json.dumps(error).encode())

    upstream.script = tell
    await fresh.operate(chat_operation())
    await fresh.post(CHAT, {"model": "llm"})
    await fresh.idle()
    _, _, raw = await fresh.get("/metrics")
    text = raw.decode()
    for word in (
        "127.0.0.1",
        str(upstream.port),
        "sk-",
        "secret",
        "passwd",
        "nobodys",
        "weights",
        "xxx",
    ):
        assert word not in text, word
    allowed = {
        "route": {OPERATIONS, *ROUTES},
        "capability": {"", *Capability},
        "code": {*Code, *OWN_CODES},
        "outcome": {"succeeded", "not_admitted", "unknown"},
        "direction": {"request", "response"},
        "model": {"llm"},
        "profile": {"default"},
        "pod": {"external"},
        "reason": {*Reason},
    }
    for family in (await families(fresh)).values():
        for sample in family.samples:
            for name, value in sample.labels.items():
                assert name == "le" or value in allowed[name], (name, value)


async def test_pods_are_those_of_the_catalogue(
    fresh: RunningRouter, upstream: ScriptedUpstream
) -> None:
    """A series goes with its pod; a model's name may hold what a label has to escape."""
    fresh.source.put(external(upstream.url, "org/name:tag"))
    await fresh.router.workers.until(
        lambda c: [row.alias for row in c.rows] == ["org/name:tag"] and bool(c.rows[0].targets)
    )
    assert [labels["model"] for _, labels, _ in await samples(fresh, "pumas_pod_in_flight")] == [
        "org/name:tag"
    ]
    fresh.source.put()
    await fresh.router.workers.until(lambda c: not c.rows)
    assert await samples(fresh, "pumas_pod_in_flight") == []


async def test_head(fresh: RunningRouter) -> None:
    async with fresh.client.head("/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/plain; version=1.0.0")
        assert int(answer.headers["content-length"]) > 0
        assert await answer.read() == b""
    # Reading them is no call.
    assert await operations(fresh) == {}


async def test_routers_do_not_share_their_counts(
    fresh: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async with running_router(external(upstream.url)) as other:
        await other.operate(chat_operation())
        await other.idle()
        assert len(await operations(other)) == 1
        assert await operations(fresh) == {}
