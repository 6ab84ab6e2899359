"""The connection rule and the marker: what is tried again, what never is, and what goes out."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from pumas_server.router import upstream_pool
from pumas_server.router.listener import listen
from pumas_server.router.origin import Origin
from pumas_server.router.settings import RouterSettings
from pumas_server.router.source import Endpoint, ModelRecord
from pumas_server.router.upstream_connection import UpstreamConnection
from pumas_server.router.upstream_pool import UpstreamPool
from support.eventually import eventually
from support.permits import pod_permit
from support.routers import RunningRouter, chat_operation, external, running_router
from support.upstream import DONE, HELLO, Conversation, ScriptedUpstream, chat


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream().serving() as scripted:
        yield scripted


#: Nobody listens there.
REFUSING = "http://127.0.0.1:1"


def with_endpoints(record: ModelRecord, *endpoints: Endpoint) -> ModelRecord:
    return replace(record, endpoints=endpoints)


def endpoint(url: str, uid: str, **members: Any) -> Endpoint:
    return Endpoint(uid, url, None, True, **members)


class Gate:
    """Holds up new connections of the data path until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        original = UpstreamPool._connect
        gate = self

        async def connect(pool: UpstreamPool, origin: Origin) -> UpstreamConnection:
            gate.reached.set()
            await gate.open.wait()
            return await original(pool, origin)

        monkeypatch.setattr(UpstreamPool, "_connect", connect)


def refuse_connections(running: RunningRouter, uid: str) -> None:
    """Let an endpoint refuse from now on, without the router's knowing."""
    running.router.workers.unreachable = lambda endpoint: None  # type: ignore[method-assign]
    targets = [t for row in running.router.workers.catalog.rows for t in row.targets]
    (found,) = [t.endpoint for t in targets if t.endpoint.uid == uid]
    object.__setattr__(found, "url", REFUSING)


async def test_a_refused_connection_is_not_admitted(upstream: ScriptedUpstream) -> None:
    async with running_router(external(upstream.url)) as running:
        refuse_connections(running, "external")
        for path, body in (
            ("/v1/model-operations", chat_operation()),
            ("/v1/chat/completions", {"model": "llm"}),
        ):
            status, headers, raw = await running.post(path, body)
            error = json.loads(raw)["error"]
            assert (status, error["code"]) == (503, "capability_unavailable")
            assert headers["x-pumas-outcome"] == "not_admitted"
            assert headers["retry-after"] == "1"
            assert "127.0.0.1" not in error["message"]
        await running.idle()
        assert upstream.seen == []


async def test_the_second_endpoint_is_used_when_the_first_refuses(
    upstream: ScriptedUpstream,
) -> None:
    async with ScriptedUpstream().serving() as first:
        record = with_endpoints(
            external(first.url), endpoint(first.url, "a"), endpoint(upstream.url, "b")
        )
        async with running_router(record, ready=False) as running:
            await running.until(lambda c: bool(c.rows) and len(c.rows[0].targets) == 2)
            attempts = []
            original = running.router.upstream.post

            async def post(session: Any, target: Any, *rest: Any) -> Any:
                attempts.append(target.endpoint.uid)
                return await original(session, target, *rest)

            running.router.upstream.post = post  # type: ignore[method-assign]
            refuse_connections(running, "a")
            with pod_permit(running.router.admission, upstream.url):
                # One more call in flight at the other makes the first the less busy.
                assert (await running.operate(chat_operation()))[0] == 200
            assert attempts == ["a", "b"]
            await running.idle()
        assert (len(first.seen), len(upstream.seen)) == (0, 1)


async def test_a_broken_call_is_not_tried_at_the_second_endpoint(
    upstream: ScriptedUpstream,
) -> None:
    async def cut(talk: Conversation) -> None:
        talk.cut()

    async with ScriptedUpstream(script=cut).serving() as first:
        upstream.script = cut
        record = with_endpoints(
            external(first.url), endpoint(first.url, "a"), endpoint(upstream.url, "b")
        )
        async with running_router(record, ready=False) as running:
            await running.until(lambda c: bool(c.rows) and len(c.rows[0].targets) == 2)
            for sent in range(1, 5):
                status, body = await running.operate(chat_operation())
                assert (status, body["error"]["outcome"]) == (502, "unknown")
                assert len(first.seen) + len(upstream.seen) == sent
            await running.idle()


async def test_calls_go_to_the_endpoint_that_has_fewer(upstream: ScriptedUpstream) -> None:
    go = asyncio.Event()

    async def waits(talk: Conversation) -> None:
        await go.wait()
        await ScriptedUpstream().script(talk)

    upstream.script = waits
    async with ScriptedUpstream(script=waits).serving() as other:
        record = with_endpoints(
            external(other.url), endpoint(other.url, "a"), endpoint(upstream.url, "b")
        )
        async with running_router(record, ready=False) as running:
            await running.until(lambda c: bool(c.rows) and len(c.rows[0].targets) == 2)
            calls = [asyncio.create_task(running.operate(chat_operation())) for _ in range(6)]
            await eventually(lambda: len(other.seen) + len(upstream.seen) == 6, "all are sent")
            assert (len(other.seen), len(upstream.seen)) == (3, 3)
            go.set()
            assert {status for status, _ in await asyncio.gather(*calls)} == {200}
            await running.idle()


@pytest.mark.parametrize("change", ["respecified", "removed", "not ready"])
async def test_an_identity_that_changes_while_connecting(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    record = external(upstream.url)
    async with running_router(record) as running:
        gate = Gate(monkeypatch)
        call = asyncio.create_task(running.operate(chat_operation()))
        await asyncio.wait_for(gate.reached.wait(), 5)
        before = running.router.workers.catalog
        match change:
            case "respecified":
                running.source.put(replace(record, spec_hash="another"))
            case "removed":
                # Stopped by its session, at once, before the gate opens.
                running.source.put()
            case _:
                running.source.put(
                    with_endpoints(record, Endpoint("external", upstream.url, None, False))
                )
        await eventually(lambda: running.router.workers.catalog is not before, "it is known")
        gate.open.set()
        status, body = await call
        error = body["error"]
        expected = (
            (502, "transport_lost")
            if change == "removed"
            else (
                503,
                "capability_unavailable",
            )
        )
        assert (status, error["code"], error["outcome"]) == (*expected, "not_admitted")
        await running.idle()
        assert upstream.seen == []


async def test_a_caller_that_leaves_while_connecting(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_router(external(upstream.url)) as running:
        gate = Gate(monkeypatch)
        async with running.raw("/v1/model-operations", chat_operation()):
            await asyncio.wait_for(gate.reached.wait(), 5)
        await running.idle()
        gate.open.set()
        assert upstream.seen == []
        assert (await running.operate(chat_operation()))[0] == 200


async def test_200_calls_take_three_connections_and_none_is_used_up(
    upstream: ScriptedUpstream,
) -> None:
    upstream.max_uses = 100
    async with running_router(external(upstream.url)) as running:
        for _ in range(200):
            assert (await running.operate(chat_operation()))[0] == 200
        assert [uses for uses in upstream.uses if uses] == [90, 90, 20]


async def test_a_connection_that_was_idle_for_two_seconds_is_not_used(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert upstream_pool.IDLE_SECONDS < 5
    async with running_router(external(upstream.url)) as running:
        for _ in range(2):
            assert (await running.operate(chat_operation()))[0] == 200
        assert [uses for uses in upstream.uses if uses] == [2]
        clock = upstream_pool.monotonic
        monkeypatch.setattr(upstream_pool, "monotonic", lambda: clock() + 2.1)
        assert (await running.operate(chat_operation()))[0] == 200
        assert [uses for uses in upstream.uses if uses] == [2, 1]


async def test_a_connection_that_the_provider_closed_is_not_used(
    upstream: ScriptedUpstream,
) -> None:
    upstream.max_uses = 1
    async with running_router(external(upstream.url)) as running:
        for n in range(1, 21):
            assert (await running.operate(chat_operation()))[0] == 200
            await eventually(lambda: upstream.open_connections <= 1, "the provider closed it")
            assert sum(upstream.uses) == n


@pytest.mark.parametrize("begun", [False, True], ids=["before its header", "in its body"])
async def test_case_76_nothing_but_connecting_has_a_deadline(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """A provider that is silent for a day answers after all."""
    go, silent = asyncio.Event(), asyncio.Event()

    async def waits(talk: Conversation) -> None:
        if begun:
            await talk.head()
        silent.set()
        await go.wait()
        if not begun:
            await talk.head()
        for event in HELLO:
            await talk.chunk(event)
        await talk.end()

    upstream.script = waits
    async with (
        running_router(external(upstream.url)) as running,
        running.raw("/v1/model-operations", chat_operation()) as (reader, _),
    ):
        await silent.wait()
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 86_400)
        passed = asyncio.Event()
        loop.call_later(0.001, passed.set)
        await passed.wait()
        go.set()
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        assert b'"text": "hello"' in await reader.readuntil(b"}}")
    assert len(upstream.seen) == 1


async def test_case_65_no_permit_is_queued_for(upstream: ScriptedUpstream) -> None:
    go = asyncio.Event()

    async def waits(talk: Conversation) -> None:
        await go.wait()
        await ScriptedUpstream().script(talk)

    upstream.script = waits
    async with running_router(external(upstream.url)) as running:
        held = [asyncio.create_task(running.operate(chat_operation())) for _ in range(64)]
        await eventually(lambda: len(upstream.seen) == 64, "64 calls are admitted")
        async with asyncio.timeout(2):
            status, body = await running.operate(chat_operation())
            error = body["error"]
            assert (status, error["code"]) == (503, "capability_unavailable")
            assert error["outcome"] == "not_admitted"
            assert "64" in error["message"]
            got, headers, raw = await running.post("/v1/chat/completions", {"model": "llm"})
            assert (got, json.loads(raw)["error"]["code"]) == (503, "capability_unavailable")
            assert headers["retry-after"] == "1"
        assert len(upstream.seen) == 64
        go.set()
        assert {status for status, _ in await asyncio.gather(*held)} == {200}
        await running.idle()


async def test_the_process_admits_so_many_calls_of_all_models(upstream: ScriptedUpstream) -> None:
    go = asyncio.Event()

    async def waits(talk: Conversation) -> None:
        await go.wait()
        await ScriptedUpstream().script(talk)

    upstream.script = waits
    settings = RouterSettings(max_in_flight=2, propagation_seconds=0, drain_seconds=0.2)
    records = [external(upstream.url, alias) for alias in ("llm", "other", "third")]
    async with running_router(*records, settings=settings) as running:
        held = [
            asyncio.create_task(running.operate(chat_operation(model=alias)))
            for alias in ("llm", "other")
        ]
        await eventually(lambda: len(upstream.seen) == 2, "two calls are admitted")
        status, body = await running.operate(chat_operation(model="third"))
        assert (status, body["error"]["outcome"]) == (503, "not_admitted")
        assert "all 2 calls" in body["error"]["message"]
        go.set()
        await asyncio.gather(*held)
        await running.idle()


async def test_a_spent_buffer_budget_refuses(upstream: ScriptedUpstream) -> None:
    settings = RouterSettings(buffer_bytes=1000, propagation_seconds=0, drain_seconds=0.2)
    async with running_router(external(upstream.url), settings=settings) as running:
        body = json.dumps(chat_operation()).encode()
        status, answer = await running.operate(body + b" " * 1000)
        error = answer["error"]
        assert (status, error["code"]) == (503, "capability_unavailable")
        assert error["outcome"] == "not_admitted"
        assert upstream.seen == []

        async def long(talk: Conversation) -> None:
            await talk.stream(chat("x" * 2000), chat(None, "stop"), DONE)

        upstream.script = long
        status, answer = await running.operate(body)
        error = answer["error"]
        assert (status, error["code"], error["outcome"]) == (502, "response_limit", "unknown")
        # What is forwarded and not held needs no budget.
        assert [k for k, _ in await running.stream(chat_operation())][-1] == "completed"
        got, _, raw = await running.post("/v1/chat/completions", {"model": "llm"})
        assert (got, len(raw) > 2000) == (200, True)
        await running.idle()


async def test_what_a_caller_sends_stays_here(upstream: ScriptedUpstream) -> None:
    keyed = with_endpoints(
        external(upstream.url), endpoint(upstream.url, "external", api_key="engine-key")
    )
    private = {
        "authorization": "Bearer callers-own",
        "cookie": "session=secret",
        "x-request-id": "r1",
        "idempotency-key": "k",
        "user-agent": "caller/1",
        "x-forwarded-for": "10.1.2.3",
        "accept-encoding": "gzip, br",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "content-type": "application/json; charset=utf-8",
        "accept": "text/event-stream",
    }
    async with running_router(keyed) as running:
        await running.post("/v1/chat/completions", {"model": "llm"}, **private)
        await running.post("/v1/model-operations", chat_operation(), **private)
    for seen in upstream.seen:
        assert seen.headers["authorization"] == "Bearer engine-key"
        assert seen.headers["accept-encoding"] == "identity"
        assert "secret" not in str(seen.headers)
        assert "callers-own" not in str(seen.headers)
    allowed = {"host", "accept", "content-type", "accept-encoding", "content-length"}
    passed, operated = upstream.seen
    assert set(passed.headers) == allowed | {"authorization", "traceparent"}
    assert passed.headers["traceparent"] == private["traceparent"]
    assert passed.headers["content-type"] == private["content-type"]
    assert passed.headers["accept"] == private["accept"]
    assert set(operated.headers) == allowed | {"authorization"}


async def test_a_cookie_of_a_provider_is_not_kept(upstream: ScriptedUpstream) -> None:
    async def sets(talk: Conversation) -> None:
        await talk.send(
            b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\nserver: x\r\ncontent-length: 2\r\n\r\n{}"
        )

    upstream.script = sets
    async with running_router(external(upstream.url)) as running:
        for _ in range(2):
            _, headers, _ = await running.post("/v1/chat/completions", {"model": "llm"})
            assert "set-cookie" not in headers
            assert "server" not in headers
    assert all("cookie" not in seen.headers for seen in upstream.seen)


async def test_proxies_of_the_environment_are_not_used(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with running_router(external(upstream.url)) as running:
        assert (await running.operate(chat_operation()))[0] == 200


def test_tokens_do_not_wait_for_acknowledgements() -> None:
    """Nagle's algorithm is off on callers' connections: asyncio asks how the listener was made."""
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
