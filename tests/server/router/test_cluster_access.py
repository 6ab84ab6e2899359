"""Whom the router is to the API server, and how it notices that nobody is there."""

from __future__ import annotations

import datetime
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import certifi
import pytest
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import incluster_config

from pumas_server.router import cluster_access as access_module
from pumas_server.router.cluster_access import cluster_access
from support.api_server import (
    MODELS,
    ScriptedApiServer,
    fall_silent,
)
from support.cluster_following import access_to
from support.cluster_objects import model_object

A, B = model_object("a"), model_object("b")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApiServer]:
    async with ScriptedApiServer().serving() as scripted:
        scripted.put(MODELS, A)
        yield scripted


async def test_the_kernel_watches_over_connections(server: ScriptedApiServer) -> None:
    server.fail(MODELS, fall_silent())
    async with access_to(server) as access, access.get(MODELS, {}, 5) as answer:
        assert answer.connection is not None
        assert answer.connection.transport is not None
        sock = answer.connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10


async def test_the_token_is_read_again(
    server: ScriptedApiServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service account's token is replaced on disk; the library reads it at most once a minute."""
    clock = [datetime.datetime(2030, 1, 1)]
    told = SimpleNamespace(
        datetime=SimpleNamespace(now=lambda: clock[0]), timedelta=datetime.timedelta
    )
    monkeypatch.setattr(incluster_config, "datetime", told)
    token = tmp_path / "token"
    token.write_text("first")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", certifi.where())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert (await access_module.load_configuration()).host == "https://[fd00::1]:443"

    class Elsewhere(Configuration):
        """The library says where the server is anew with every token."""

        host = property(lambda self: server.url, lambda self, told: None)

    monkeypatch.setattr(access_module, "Configuration", Elsewhere)
    configuration = await access_module.load_configuration()

    async def asked_with() -> str:
        async with cluster_access(configuration) as access, access.get(MODELS, {}, 5):
            return server.asked[-1].token

    assert await asked_with() == "bearer first"
    token.write_text("second")
    assert await asked_with() == "bearer first"
    clock[0] += datetime.timedelta(minutes=2)
    assert await asked_with() == "bearer second"


@pytest.mark.parametrize("host", ["", "10.0.0.1"])
async def test_no_cluster_is_said_in_a_sentence(
    host: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = str(tmp_path / "nothing")
    monkeypatch.setenv("KUBECONFIG", nothing)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", nothing)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if host:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(access_module.NoCluster) as refused:
        await access_module.load_configuration()
    assert str(refused.value).startswith("No cluster can be reached from here: ")
    assert str(tmp_path) not in str(refused.value)
