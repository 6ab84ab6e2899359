"""kopf's part, run for real: objects arrive, nothing is written, and watches go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pumas_crds.vocabulary import (
    MANAGED_BY_LABEL,
    MANAGED_BY_VALUE,
    PART_OF_LABEL,
    PART_OF_VALUE,
)
from pumas_operator import handlers
from pumas_operator.kinds import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    JOB,
    LEASE,
    NETWORK_POLICY,
    POD,
    SERVED_MODEL,
    SERVICE,
    SERVING_PROFILE,
    Kind,
)
from support.api_server import MODELS, hang
from support.cluster_objects import model_object
from support.eventually import eventually
from support.kopf_run import HOME, LEASE_NAME, Told, watching
from support.kubeconfig import TOKEN
from support.operator_api import OperatorApi

OURS = {"labelSelector": "app.kubernetes.io/managed-by=pumas-operator"}
LEASES = LEASE.path(HOME)


@pytest.fixture
async def api() -> AsyncIterator[OperatorApi]:
    """With one model."""
    api = OperatorApi()
    api.cluster.put(SERVED_MODEL, model_object("a"))
    async with api.server.serving():
        yield api


def put(api: OperatorApi, kind: Kind, name: str, namespace: str = "team", **told: Any) -> None:
    """Somebody makes or changes an object of ours."""
    labels = {MANAGED_BY_LABEL: MANAGED_BY_VALUE, PART_OF_LABEL: PART_OF_VALUE}
    metadata = {"name": name, "namespace": namespace, "uid": name} | told
    metadata["labels"] = labels | metadata.get("labels", {})
    api.cluster.put(kind, {"metadata": metadata})


async def test_what_is_there_is_listed_and_what_happens_is_told(
    api: OperatorApi, tmp_path: Path
) -> None:
    async with watching(api, tmp_path) as told:
        await told.until("seen ServedModel a", "relisted")
        await eventually(lambda: api.server.watching(MODELS), "it watches")
        put(api, SERVED_MODEL, "b")
        await told.until("seen ServedModel b")
        put(api, SERVED_MODEL, "b", labels={"changed": "yes"})
        await told.until("seen ServedModel b")
        api.cluster.drop(SERVED_MODEL, "team", "b")
        await told.until("gone ServedModel b")


async def test_every_kind_arrives_as_what_it_is(api: OperatorApi, tmp_path: Path) -> None:
    kinds = (SERVICE, DISRUPTION_BUDGET, NETWORK_POLICY, DEPLOYMENT, JOB, POD)
    put(api, POD, "listed")
    async with watching(api, tmp_path) as told:
        await told.until("seen ServedModel a", "relisted", "seen Pod listed", "relisted")
        await eventually(
            lambda: all(api.server.watching(kind.everywhere) for kind in kinds), "it watches"
        )
        for kind in kinds:
            put(api, kind, "new")
        await told.until(*(f"seen {kind.name} new" for kind in kinds))
        for kind in kinds:
            api.cluster.drop(kind, "team", "new")
        await told.until(*(f"gone {kind.name} new" for kind in kinds))


async def test_at_home_profiles_are_told_and_a_lease_gives_the_pulse(
    api: OperatorApi, tmp_path: Path
) -> None:
    beats: list[bool] = []

    def pulse() -> None:
        beats.append(True)

    put(api, SERVING_PROFILE, "default", HOME)
    put(api, LEASE, LEASE_NAME, HOME)
    async with watching(api, tmp_path, at_home=True, namespaces=(HOME,), pulse=pulse) as told:
        listed = ("seen ServingProfile default", f"seen Lease {LEASE_NAME}")
        await told.until(*listed, "relisted", "relisted")
        await eventually(lambda: api.server.watching(LEASES), "it watches")
        await eventually(lambda: len(beats) == 1, "a beat")
        put(api, LEASE, LEASE_NAME, HOME)
        await eventually(lambda: len(beats) == 2, "a beat")
        put(api, LEASE, "of-demand", HOME)
        put(api, SERVING_PROFILE, "default", HOME)
        await told.until(
            f"seen Lease {LEASE_NAME}", "seen Lease of-demand", "seen ServingProfile default"
        )
        assert len(beats) == 2, "of the others nobody's life is known"
    assert collections(api) == {SERVING_PROFILE.path(HOME), LEASES}


def collections(api: OperatorApi) -> set[str]:
    """What was listed or watched: whatever was asked but for which kinds there are."""
    asked = [a for a in api.server.asked if "limit" in a.query or a.watches]
    others = {a.path for a in api.server.asked if a not in asked}
    assert others <= api.discovery
    return {a.path for a in asked}


@pytest.mark.parametrize(
    ("namespaces", "prefixes"),
    [((), [""]), (("x",), ["namespaces/x/"]), (("x", "y"), ["namespaces/x/", "namespaces/y/"])],
)
async def test_what_is_asked_where(
    namespaces: tuple[str, ...], prefixes: list[str], api: OperatorApi, tmp_path: Path
) -> None:
    """Our objects only, and neither namespaces nor definitions."""
    expected = {
        f"{root}/{prefix}{plural}": selector
        for prefix in prefixes
        for root, plural, selector in (
            ("/apis/serving.pumas.dev/v1alpha1", "servedmodels", {}),
            ("/api/v1", "services", OURS),
            ("/api/v1", "pods", OURS),
            ("/apis/policy/v1", "poddisruptionbudgets", OURS),
            ("/apis/networking.k8s.io/v1", "networkpolicies", OURS),
            ("/apis/apps/v1", "deployments", OURS),
            ("/apis/batch/v1", "jobs", OURS),
        )
    }
    async with watching(api, tmp_path, namespaces=namespaces):
        await eventually(lambda: all(map(api.server.watching, expected)), "it watches all")
    assert collections(api) == set(expected)
    for path, selector in expected.items():
        (listing,) = [a.query for a in api.server.asked if a.path == path and not a.watches]
        assert listing == {"limit": "100"} | selector
        (watch,) = [a.query for a in api.server.watches(path)]
        assert (watch["timeoutSeconds"], watch["allowWatchBookmarks"]) == ("290", "true")
        assert {name: watch[name] for name in watch if "Selector" in name} == selector
    assert {asked.token for asked in api.server.asked} == {f"Bearer {TOKEN}"}


async def test_of_leases_only_ours_are_asked_for(api: OperatorApi, tmp_path: Path) -> None:
    own = {"labelSelector": f"{PART_OF_LABEL}={PART_OF_VALUE}"}
    home = {LEASES: own, SERVING_PROFILE.path(HOME): {}}
    async with watching(api, tmp_path, at_home=True, namespaces=(HOME,), pulse=lambda: None):
        await eventually(lambda: all(map(api.server.watching, home)), "it watches all")
    for path, selector in home.items():
        asked = [a.query for a in api.server.asked if a.path == path]
        assert len(asked) == 2
        for query in asked:
            assert {name: query[name] for name in query if "Selector" in name} == selector


async def test_nothing_is_written_on_an_object_that_goes_or_that_the_sink_cannot_take(
    api: OperatorApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Told):
        def seen(self, kind: Kind, body: Any) -> None:
            if body["metadata"]["name"] == "bad":
                raise RuntimeError("a fault of ours")
            super().seen(kind, body)

    sink = Broken()
    put(api, SERVED_MODEL, "bad")
    put(api, SERVED_MODEL, "going", deletionTimestamp="2030-01-01T00:00:00Z", finalizers=["x/y"])
    async with watching(api, tmp_path, sink=sink):
        await eventually(lambda: "a fault of ours" in caplog.text, "it is logged")
        await eventually(lambda: len(sink.lines) >= 4, "the others are told")
        await eventually(lambda: api.server.watching(MODELS), "it watches")
        put(api, SERVED_MODEL, "bad", labels={"changed": "yes"})
        put(api, SERVED_MODEL, "good")
        await eventually(lambda: "seen ServedModel good" in sink.lines, "the next is told")


@pytest.mark.parametrize("way", ["ended", "cut"])
async def test_a_watch_goes_on_where_it_ended(way: str, api: OperatorApi, tmp_path: Path) -> None:
    async with watching(api, tmp_path) as told:
        await told.until("seen ServedModel a", "relisted")
        await eventually(lambda: api.server.watching(MODELS), "it watches")
        put(api, SERVED_MODEL, "b")
        await told.until("seen ServedModel b")
        version = api.server.store.version
        if way == "ended":
            api.server.end(MODELS)
        else:
            await api.server.cut(MODELS)
        await eventually(lambda: len(api.server.watches(MODELS)) == 2, "it watches again")
        put(api, SERVED_MODEL, "c")
        await told.until("seen ServedModel c")
    assert api.server.watches(MODELS)[1].query["resourceVersion"] == str(version)
    assert api.server.lists(MODELS) == 1


async def test_what_a_server_has_forgotten_is_listed_again_and_that_is_told(
    api: OperatorApi, tmp_path: Path
) -> None:
    async with watching(api, tmp_path) as told:
        await told.until("seen ServedModel a", "relisted")
        await eventually(lambda: api.server.watching(MODELS), "it watches")
        api.server.expire(MODELS)
        await told.until("seen ServedModel a", "relisted")


async def test_a_watch_that_is_silent_is_dead(
    api: OperatorApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "SILENCE_SECONDS", 0.2)
    api.server.fail(MODELS, hang, watch=True)
    async with watching(api, tmp_path) as told:
        await told.until("seen ServedModel a", "relisted")
        await eventually(lambda: len(api.server.watches(MODELS)) >= 3, "it watches again")
        put(api, SERVED_MODEL, "b")
        await told.until("seen ServedModel b")
    assert api.server.lists(MODELS) == 1
