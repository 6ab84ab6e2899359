"""Single requests of the API server: what each answer means, and that nothing is sent twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException

from pumas_server.router import cluster_access as access_module
from pumas_server.router.cluster_access import cluster_access
from pumas_server.router.cluster_answers import (
    MERGE_PATCH,
    AnswerRefused,
    Unanswered,
    explain,
    read_object,
)
from support.api_server import Fault, ScriptedApiServer, cut, fall_silent, hang, refuse, say
from support.cluster_following import access_to
from support.worker import free_ports

LEASES = "/apis/coordination.k8s.io/v1/namespaces/home/leases"
LEASE = f"{LEASES}/one"
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    async with ScriptedApiServer().serving() as scripted:
        scripted.store.do("POST", LEASES, json.dumps(lease("one")).encode(), "application/json")
        yield scripted


def lease(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def path_of(method: str) -> str:
    return LEASES if method == "POST" else LEASE


@pytest.mark.parametrize(
    ("status", "raw", "told"),
    [
        (200, b'{"kind": "Lease"}', {"kind": "Lease"}),
        (201, b"{}", {}),
        (202, b'{"kind": "Status"}', {"kind": "Status"}),
        (200, b"", Unanswered),
        (200, b"[]", Unanswered),
        (200, b"<html>", Unanswered),
        (200, b"\xff", Unanswered),
        (200, b"[" * 100_000, Unanswered),
        (302, b"", (302, "")),
        (400, b'{"reason": "BadRequest"}', (400, "BadRequest")),
        (401, b'{"reason": 7}', (401, "")),
        (403, b'{"reason": "Forbidden"}', (403, "Forbidden")),
        (404, b"404 page not found", (404, "")),
        (409, b'{"reason": "AlreadyExists"}', (409, "AlreadyExists")),
        (429, b"[]", (429, "")),
        (500, b'{"reason": "InternalError"}', (500, "InternalError")),
        (504, b"", (504, "")),
    ],
)
def test_what_an_answer_is(status: int, raw: bytes, told: Any) -> None:
    if told is Unanswered:
        with pytest.raises(Unanswered):
            read_object(status, raw)
    elif isinstance(told, tuple):
        with pytest.raises(AnswerRefused) as refused:
            read_object(status, raw)
        assert (refused.value.status, refused.value.reason) == told
        assert refused.value.undecided is (status >= 500)
        assert str(status) in str(refused.value)
    else:
        assert read_object(status, raw) == told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            AnswerRefused(403, "Forbidden"),
            "The API server forbids the router to patch leases; its role needs that right.",
        ),
        (
            AnswerRefused(422, "Invalid"),
            "The router could not patch leases: the API server answers 422 (Invalid).",
        ),
        (
            AnswerRefused(429),
            "The router could not patch leases: the API server answers 429.",
        ),
        (
            AnswerRefused(503),
            "It is not known whether the router could patch leases: the API server answers 503.",
        ),
        (
            Unanswered("the API server is silent"),
            "It is not known whether the router could patch leases: the API server is silent.",
        ),
    ],
)
def test_a_failure_is_a_sentence(error: AnswerRefused | Unanswered, told: str) -> None:
    assert explain(error, "patch leases") == told


async def test_a_request_arrives_as_it_was_meant(server: ScriptedApiServer) -> None:
    patch = {"spec": {"holderIdentity": "é"}}
    async with access_to(server) as access:
        answered = await access.send("PATCH", LEASE, patch, MERGE_PATCH, {"fieldManager": "x"})
        assert answered["spec"] == {"holderIdentity": "é"}
        assert await access.send("GET", LEASE) == answered
        made: Any = await access.send("POST", LEASES, lease("two"))
        assert made["metadata"]["name"] == "two"
    patched, got, posted = server.asked
    assert (patched.method, patched.body, patched.query) == ("PATCH", patch, {"fieldManager": "x"})
    assert (patched.content_type, posted.content_type) == (MERGE_PATCH, "application/json")
    assert (got.method, got.body) == ("GET", None)


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 409, 422, 429, 500, 503])
@pytest.mark.parametrize("method", METHODS)
async def test_a_refusal_is_told_and_not_asked_again(
    method: str, status: int, server: ScriptedApiServer
) -> None:
    server.fail(path_of(method), refuse(status, "Because"), method=method)
    async with access_to(server) as access:
        with pytest.raises(AnswerRefused) as refused:
            await access.send(method, path_of(method), lease("one"))
    assert (refused.value.status, refused.value.reason) == (status, "Because")
    assert len(server.asked) == 1


@pytest.mark.parametrize("done", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
@pytest.mark.parametrize("method", METHODS)
async def test_a_cut_connection_is_not_known_and_never_sent_again(
    method: str, reused: bool, done: bool, server: ScriptedApiServer
) -> None:
    path = path_of(method)
    body = None if method == "GET" else lease("two" if method == "POST" else "one", n=1)
    content_type = MERGE_PATCH if method == "PATCH" else "application/json"
    server.fail(path, server.and_then(cut) if done else cut, method=method)
    async with access_to(server) as access:
        if reused:
            warming = "PATCH" if method == "GET" else "GET"
            await access.send(warming, LEASE, {}, MERGE_PATCH)
        before = len(server.asked)
        with pytest.raises(Unanswered):
            await access.send(method, path, body, content_type)
    assert len(server.asked) == before + 1
    found = [server.store.find(LEASES, name) for name in ("one", "two")]
    specs = [each["spec"] if each else None for each in found]
    after: dict[str, list[dict[str, int] | None]] = {
        "POST": [{}, {"n": 1}],
        "DELETE": [None, None],
        "GET": [{}, None],
    }
    assert specs == (after.get(method, [{"n": 1}, None]) if done else [{}, None])


@pytest.mark.parametrize(
    "fault", [hang, fall_silent(), fall_silent(b'{"kind": '), say(b"[]"), say(b"<html>")]
)
async def test_silence_and_nonsense_are_no_answer(
    fault: Fault, server: ScriptedApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "ANSWER_SECONDS", 0.3)
    server.fail(LEASE, fault, method="PUT")
    async with access_to(server) as access:
        with pytest.raises(Unanswered):
            await access.send("PUT", LEASE, lease("one"))
    assert len(server.asked) == 1


async def test_an_answer_may_take_ten_seconds_in_all() -> None:
    assert access_module.ANSWER_SECONDS == 10


async def test_nobody_there_is_no_answer() -> None:
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{free_ports(1)[0]}"
    async with cluster_access(configuration) as access:
        with pytest.raises(Unanswered):
            await access.send("GET", LEASE)


async def test_without_a_token_nothing_is_sent(
    server: ScriptedApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*arguments: str) -> str:
        raise ConfigException("empty")

    configuration = Configuration()
    configuration.host = server.url
    monkeypatch.setattr(configuration, "get_api_key_with_prefix", none)
    async with cluster_access(configuration) as access:
        with pytest.raises(Unanswered, match="token"):
            await access.send("GET", LEASE)
    assert server.asked == []
