"""The API server: what is sent to it, once, and what each of its answers means."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import kube_config

from pumas_operator import cluster as cluster_module
from pumas_operator.cluster import (
    ANSWER_SECONDS,
    ApiServer,
    Refused,
    Unreachable,
    api_server,
)
from pumas_operator.leader import LEASE_SECONDS, VALID_SECONDS
from pumas_operator.requests import Request
from support.kubeconfig import TOKEN, write_kubeconfig
from support.loopback import (
    Handler,
    Loopback,
    answering,
    cut,
    cut_after,
    hang,
    hang_after,
    redirect,
    say,
    speak,
)

PATH = "/api/v1/namespaces/team/pods/a"
GOOD = b'{"kind": "Pod", "metadata": {"name": "a"}}'
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
POD: dict[str, object] = {"kind": "Pod", "metadata": {"name": "a"}}


@pytest.fixture(autouse=True)
def no_server_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library keeps the configuration that was loaded last for the whole process."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    # No server here speaks TLS, and reading the machine's authorities takes longer than a test.
    monkeypatch.setattr(ssl, "create_default_context", lambda **told: NO_AUTHORITIES)
    yield
    Configuration.set_default(None)


@asynccontextmanager
async def reaching(url: str, folder: Path) -> AsyncIterator[ApiServer]:
    """The operator's way to a server, as a kubeconfig tells it."""
    with pytest.MonkeyPatch.context() as patch:
        file = str(write_kubeconfig(folder, url))
        patch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", file)
        async with asyncio.timeout(20), api_server() as cluster:
            yield cluster


@asynccontextmanager
async def connected(handler: Handler, folder: Path) -> AsyncIterator[tuple[Loopback, ApiServer]]:
    """A server that answers so, and the way to it."""
    async with answering(handler) as server, reaching(server.url, folder) as cluster:
        yield server, cluster


def status(code: int, reason: str, message: str = "no") -> Handler:
    """What the API server answers when something is wrong."""
    told = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return say(json.dumps(told).encode(), code)


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", PATH),
        Request("GET", "/api/v1/pods", query={"labelSelector": "a=b,c in (d)", "continue": "x+/="}),
        Request("POST", PATH, POD, query={"fieldManager": "pumas-operator"}),
        Request("PUT", PATH, POD),
        Request("PATCH", PATH, {"spec": "ü"}, "application/merge-patch+json"),
        Request("PATCH", PATH, POD, "application/apply-patch+yaml", {"force": "true"}),
        Request("DELETE", PATH, {"preconditions": {"uid": "u"}}),
    ],
    ids=lambda request: f"{request.method} {request.content_type}",
)
async def test_a_request_is_sent_as_it_is_and_once(request_: Request, tmp_path: Path) -> None:
    async with connected(say(GOOD), tmp_path) as (server, cluster):
        assert await cluster.send(request_) == POD
    (asked,) = server.asked
    assert (asked.method, asked.path) == (request_.method, request_.path)
    assert asked.query == dict(request_.query)
    assert asked.body == (request_.payload() or b"")
    assert asked.headers["content-type"] == request_.content_type
    assert asked.headers["accept"] == "application/json"
    assert asked.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("code", [200, 201, 202])
async def test_an_object_is_the_answer(code: int, tmp_path: Path) -> None:
    async with connected(say(GOOD, code), tmp_path) as (_, cluster):
        assert await cluster.send(Request("POST", PATH, POD)) == POD


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (status(400, "BadRequest", "it is bad"), (400, "BadRequest", "it is bad")),
        (status(401, "Unauthorized"), (401, "Unauthorized", "no")),
        (status(403, "Forbidden"), (403, "Forbidden", "no")),
        (status(404, "NotFound"), (404, "NotFound", "no")),
        (status(409, "Conflict"), (409, "Conflict", "no")),
        (status(422, "Invalid"), (422, "Invalid", "no")),
        (status(500, "InternalError", "a webhook"), (500, "InternalError", "a webhook")),
        (say(b"404 page not found\n", 404), (404, "", "")),
        (say(b"[1]", 403), (403, "", "")),
        (say(b'"no"', 403), (403, "", "")),
        (say(b'{"reason": 1, "message": null}', 409), (409, "", "")),
    ],
)
async def test_a_no_is_told_with_its_reason(
    handler: Handler, told: tuple[int, str, str], tmp_path: Path
) -> None:
    async with connected(handler, tmp_path) as (server, cluster):
        with pytest.raises(Refused) as refused:
            await cluster.send(Request("GET", PATH))
    error = refused.value
    assert (error.status, error.reason, error.message) == told
    assert str(error) == f"{told[0]} {told[1]}: {told[2]}"
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("code", "message", "outdated"),
    [
        (404, "", True),
        (409, "", True),
        (422, "metadata.uid: Invalid value: field is immutable", True),
        (422, "spec.replicas: Invalid value: -1", False),
        (409, "metadata.uid", True),
        (400, "metadata.uid", False),
        (403, "", False),
        (500, "metadata.uid", False),
    ],
)
def test_what_says_that_the_object_is_another_by_now(
    code: int, message: str, outdated: bool
) -> None:
    assert Refused(code, "", message).outdated is outdated


@pytest.mark.parametrize(
    "handler",
    [
        status(429, "TooManyRequests"),
        status(500, "Timeout"),
        status(502, ""),
        status(503, "ServiceUnavailable"),
        status(504, "Timeout"),
        say(b"upstream connect error", 503),
        say(b"", 500),
        say(b"", 200),
        say(b"", 204),
        say(b"ok", 200),
        say(b"[1]", 200),
        say(b"{}", 200),
        say(GOOD[:-1], 200),
        say(b"\xff", 200),
        say(GOOD, 304),
        say(GOOD, 200, encoding="deflate"),
        cut_after(GOOD),
    ],
)
async def test_weather_and_what_cannot_be_read_is_unreachable(
    handler: Handler, tmp_path: Path
) -> None:
    async with connected(handler, tmp_path) as (server, cluster):
        with pytest.raises(Unreachable) as unreachable:
            await cluster.send(Request("PATCH", PATH))
    assert TOKEN not in str(unreachable.value)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("code", "method"),
    [(301, "GET"), (302, "POST"), (303, "PATCH"), (307, "POST"), (308, "PATCH"), (308, "GET")],
)
async def test_nobody_is_sent_elsewhere(code: int, method: str, tmp_path: Path) -> None:
    async with connected(redirect(code, GOOD), tmp_path) as (server, cluster):
        with pytest.raises(Unreachable):
            await cluster.send(Request(method, PATH))
    assert [asked.path for asked in server.asked] == [PATH]


@pytest.mark.parametrize("handler", [cut, speak(b"")])
@pytest.mark.parametrize("method", ["POST", "PATCH", "GET", "PUT", "DELETE"])
@pytest.mark.parametrize("kept", [False, True])
async def test_a_connection_that_breaks_is_unreachable_and_nothing_is_sent_again(
    handler: Handler, method: str, kept: bool, tmp_path: Path
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await (say(GOOD) if request.path == "/before" else handler)(request)

    async with connected(answer, tmp_path) as (server, cluster):
        if kept:
            await cluster.send(Request("GET", "/before"))
        with pytest.raises(Unreachable):
            await cluster.send(Request(method, PATH))
    assert [asked.path for asked in server.asked].count(PATH) == 1


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_what_is_no_http_is_unreachable(method: str, tmp_path: Path) -> None:
    async with connected(speak(b"SSH-2.0-x\r\n"), tmp_path) as (server, cluster):
        with pytest.raises(Unreachable):
            await cluster.send(Request(method, PATH))
    assert len(server.asked) == 1


@pytest.mark.parametrize("handler", [hang, hang_after(GOOD[:9])])
@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_an_answer_that_takes_its_time_is_unreachable(
    handler: Handler, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "ANSWER_SECONDS", 0.1)
    async with connected(handler, tmp_path) as (server, cluster):
        with pytest.raises(Unreachable, match="TimeoutError"):
            await cluster.send(Request(method, PATH))
        assert len(server.asked) <= 1


def test_what_a_leader_began_to_write_is_over_before_another_leads() -> None:
    assert VALID_SECONDS + ANSWER_SECONDS <= LEASE_SECONDS


async def test_nobody_listening_is_unreachable(tmp_path: Path, unused_tcp_port: int) -> None:
    async with reaching(f"http://127.0.0.1:{unused_tcp_port}", tmp_path) as cluster:
        with pytest.raises(Unreachable):
            await cluster.send(Request("GET", PATH))
