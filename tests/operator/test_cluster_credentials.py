"""Whom the operator is to the API server: its pod's account, or the kubeconfig's user."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import certifi
import pytest
from kubernetes.aio import client, config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import incluster_config, kube_config

from pumas_operator.cluster import ApiServer, Unreachable, load_credentials
from pumas_operator.requests import Request
from support.kubeconfig import TOKEN, write_kubeconfig
from support.loopback import Loopback, answering, say

PATH = "/api/v1/namespaces/team/pods/a"
GOOD = b'{"kind": "Pod"}'


@pytest.fixture(autouse=True)
def no_server_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library keeps the configuration that was loaded last for the whole process."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield
    Configuration.set_default(None)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token of a service account: the process is in a pod."""
    token = tmp_path / "token"
    token.write_text("first")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", certifi.where())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return token


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
@pytest.mark.usefixtures("account")
async def test_in_a_pod_its_own_account_is_used(
    host: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    file = str(write_kubeconfig(tmp_path, "http://elsewhere.example"))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", file)
    await load_credentials()
    loaded = Configuration.get_default()
    assert (loaded.host, loaded.ssl_ca_cert) == (url, certifi.where())
    assert await loaded.get_api_key_with_prefix("BearerToken") == "bearer first"


async def test_outside_a_pod_the_kubeconfig_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(write_kubeconfig(tmp_path, "http://127.0.0.1:1"))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", file)
    await load_credentials()
    loaded = Configuration.get_default()
    assert loaded.host == "http://127.0.0.1:1"
    assert await loaded.get_api_key_with_prefix("BearerToken") == f"Bearer {TOKEN}"


@asynccontextmanager
async def in_a_pod(server: Loopback) -> AsyncIterator[ApiServer]:
    """With the pod's own account, though this server has no certificate."""

    class Elsewhere(Configuration):
        """The library says where the server is anew with every token."""

        host = property(lambda self: server.url, lambda self, told: None)

    configuration = Elsewhere()
    config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    async with client.ApiClient(configuration) as api, aiohttp.ClientSession() as session:
        yield ApiServer(api, session)


@pytest.fixture
def two_minutes_later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The library reads a token at most once a minute, by this clock."""
    clock = [datetime.datetime(2030, 1, 1)]
    told = SimpleNamespace(
        datetime=SimpleNamespace(now=lambda: clock[0]), timedelta=datetime.timedelta
    )
    monkeypatch.setattr(incluster_config, "datetime", told)

    def pass_by() -> None:
        clock[0] += datetime.timedelta(minutes=2)

    return pass_by


async def test_a_token_that_was_replaced_is_sent(
    account: Path, two_minutes_later: Callable[[], None]
) -> None:
    async with answering(say(GOOD)) as server, in_a_pod(server) as cluster:
        for token in ("first", "second"):
            account.write_text(token)
            await cluster.send(Request("GET", PATH))
            two_minutes_later()
    told = [asked.headers["authorization"] for asked in server.asked]
    assert told == ["bearer first", "bearer second"]


@pytest.mark.parametrize("broken", ["empty", "missing"])
async def test_without_a_token_the_server_is_unreachable(
    broken: str, account: Path, two_minutes_later: Callable[[], None]
) -> None:
    async with answering(say(GOOD)) as server, in_a_pod(server) as cluster:
        two_minutes_later()
        account.write_text("") if broken == "empty" else account.unlink()
        with pytest.raises(Unreachable):
            await cluster.send(Request("GET", PATH))
