"""How kopf is set up: its patience with an API server that is away, and whom it is there."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path

import kopf
import pytest

from pumas_operator import handlers
from pumas_operator.handlers import SILENCE_SECONDS, WATCH_SECONDS, build_settings
from pumas_operator.kinds import SERVED_MODEL
from support.api_server import MODELS, Fault, cut, refuse, say
from support.cluster_objects import model_object
from support.eventually import eventually
from support.kopf_run import watching
from support.kubeconfig import write_kubeconfig
from support.operator_api import OperatorApi


@pytest.fixture
async def api() -> AsyncIterator[OperatorApi]:
    """With one model."""
    api = OperatorApi()
    api.cluster.put(SERVED_MODEL, model_object("a"))
    async with api.server.serving():
        yield api


@pytest.mark.parametrize("at_home", [False, True])
def test_watches_are_bounded_and_nothing_is_posted(at_home: bool) -> None:
    settings = build_settings(at_home=at_home)
    watching = settings.watching
    assert (watching.server_timeout, watching.client_timeout) == (290, 320)
    assert (watching.connect_timeout, watching.inactivity_timeout) == (10, 90.0)
    assert watching.chunk_size == 100
    assert settings.scanning.disabled
    assert not settings.posting.enabled


def test_a_watch_outlives_the_bookmarks_that_keep_it_alive() -> None:
    """A server sends one each minute; a watch that ends before two are late tells nothing."""
    assert 60 < SILENCE_SECONDS < WATCH_SECONDS


def test_pauses_never_end_and_are_never_long() -> None:
    pauses = build_settings(at_home=False).networking.error_backoffs
    assert not isinstance(pauses, float | int)
    for _ in range(2):
        told = list(islice(pauses, 1000))
        assert told[:6] == [0.5, 1.0, 2.0, 3.0, 5.0, 5.0]
        assert len(told) == 1000
        assert max(told) == 5.0


@pytest.mark.parametrize("fault", [refuse(503), refuse(500), refuse(429), refuse(403), cut])
@pytest.mark.parametrize("watch", [False, True])
async def test_an_api_server_that_is_away_for_long_is_waited_for(
    fault: Fault, watch: bool, api: OperatorApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left to itself kopf tries nine times, and then ends."""
    monkeypatch.setattr(handlers, "_PAUSES", ())
    monkeypatch.setattr(handlers, "_LONGEST_PAUSE", 0.001)
    for _ in range(20):
        api.server.fail(MODELS, fault, watch=watch)
    async with watching(api, tmp_path) as told:
        await told.until("seen ServedModel a", "relisted")
        await eventually(lambda: api.server.watching(MODELS), "it watches")
    assert not api.server.faults


async def test_a_token_that_was_replaced_is_sent_once_the_former_is_refused(
    api: OperatorApi, tmp_path: Path
) -> None:
    async with watching(api, tmp_path) as told:
        await told.until("seen ServedModel a", "relisted")
        await eventually(lambda: api.server.watching(MODELS), "it watches")
        write_kubeconfig(tmp_path, api.server.url, token="second")
        api.server.fail(MODELS, refuse(401), watch=True)
        api.server.end(MODELS)
        await eventually(lambda: api.server.asked[-1].token == "Bearer second", "it says who it is")
        await eventually(lambda: api.server.watching(MODELS), "it watches")


async def test_of_a_listing_without_objects_kopf_tells_nothing(
    api: OperatorApi, tmp_path: Path
) -> None:
    """So that what went unseen is noticed by the listing of every ten minutes (ADR 12)."""
    async with watching(api, tmp_path) as told:
        await told.until("seen ServedModel a", "relisted")
        await eventually(lambda: api.server.watching(MODELS), "it watches")
        expired = b'{"type": "ERROR", "object": {"code": 410}}\n'
        api.server.fail(MODELS, say(expired), watch=True)
        await api.server.cut(MODELS)
        api.cluster.drop(SERVED_MODEL, "team", "a")
        await eventually(lambda: len(api.server.watches(MODELS)) == 3, "it watches again")
        assert api.server.lists(MODELS) == 2
        assert told.lines == []


ACCOUNT = kopf.ConnectionInfo(
    server="https://kubernetes.default.svc", ca_path="/run/ca.crt", token="t"
)


@pytest.mark.parametrize(
    ("host", "server"),
    [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
async def test_in_a_pod_the_server_is_told_by_its_address(
    host: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **told: ACCOUNT)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, "http://elsewhere.example")))
    told = await handlers._log_in(
        settings=build_settings(at_home=False), logger=logging.getLogger()
    )
    assert told is not None
    assert (told.server, told.token, told.ca_path) == (server, "t", "/run/ca.crt")
