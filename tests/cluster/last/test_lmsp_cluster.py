"""The LMSP catalogue with load and unload, on two routers behind one Service. Run alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.cluster import soon
from support.installing import run
from support.models_server import ModelsServer
from support.release import Release
from support.team_models import TeamModels

B = "/lmsp/v1/models"


@pytest.fixture
def managing(deployed: Release) -> Iterator[Release]:
    """The release while callers may load and unload models."""
    _upgrade(deployed, "true")
    yield deployed
    _upgrade(deployed, "false")


def _upgrade(release: Release, managed: str) -> None:
    run(
        f"helm upgrade {release.name} charts/pumas --namespace {release.namespace} --reuse-values"
        f" --set router.modelManagement={managed} --wait"
    )


@contextmanager
def routers(release: Release) -> Iterator[list[httpx.Client]]:
    """A client for each router, by the address of its pod."""
    selector = "--selector=app.kubernetes.io/component=router"
    found = release.kubectl.get("pods", selector, "--field-selector=status.phase=Running")["items"]
    live = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    bases = [f"http://{pod['status']['podIP']}:8080" for pod in live]
    with ExitStack() as opened:
        yield [
            opened.enter_context(httpx.Client(base_url=base, trust_env=False, timeout=60))
            for base in bases
        ]


@pytest.mark.own_cluster
@pytest.mark.budget(240)
def test_two_routers_are_one_catalogue(
    models: TeamModels, models_server: ModelsServer, managing: Release
) -> None:
    source = models_server.source("tiny-chat.gguf")
    spec = {"source": source, "replicas": 0, "activation": {"onDemand": True}}
    models.team.apply(models.body("a", **spec), models.body("b", source=source))
    inspected = "The file was inspected and can be served."
    models.tells("a", ConditionType.ACCEPTED, "True", Reason.ACCEPTED, inspected)
    models.tells("b", ConditionType.SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")
    ids = {name: models.team.get("sm", name)["status"]["catalogueId"] for name in "ab"}
    with routers(managing) as (one, two):
        _are_one(models, ids, one, two)


def _are_one(models: TeamModels, ids: dict[str, str], one: httpx.Client, two: httpx.Client) -> None:
    def same() -> httpx.Response | None:
        lists = [router.get(B) for router in (one, two)]
        listed = {each["id"] for each in lists[0].json().get("data", [])}
        equal = lists[0].content == lists[1].content
        return lists[0] if equal and set(ids.values()) <= listed else None

    def states(router: httpx.Client) -> dict[str, str]:
        data = router.get(B).json()["data"]
        told = {each["id"]: each["status"] for each in data}
        return {name: told[full] for name, full in ids.items()}

    first = soon(same, "one list on both", 20)
    assert states(one) == {"a": "installed", "b": "ready"}
    tag = {"If-None-Match": first.headers["etag"]}
    assert [router.get(B, headers=tag).status_code for router in (one, two)] == [304, 304]

    # Of this test alone: a key is kept for a day, whatever runs on this cluster.
    path, key = f"{B}/{ids['a']}", {"Idempotency-Key": f'"{models.team.namespace}"'}
    began = one.post(f"{path}/load", headers=key)
    assert (began.status_code, began.json()["status"]) == (202, "loading")
    again = two.post(f"{path}/load", headers=key)
    assert (again.status_code, again.content) == (202, began.content)
    assert again.headers["idempotent-replayed"] == "true"
    other = two.post(f"{path}/unload", headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    soon(lambda: states(two)["a"] == "ready", "it is loaded", 60)
    generation = models.team.get("sm", "a")["metadata"]["generation"]
    assert two.post(f"{path}/load").status_code == 200
    assert models.team.get("sm", "a")["metadata"]["generation"] == generation
    assert soon(same, "one list on both", 20).headers["etag"] != first.headers["etag"]

    unload: Any = one.post(f"{path}/unload")
    assert (unload.status_code, unload.json()["status"]) == (200, "unloading")
    soon(lambda: states(two)["a"] == "installed", "it is unloaded", 60)
    assert two.post(f"{path}/unload").json()["status"] == "installed"
    gone = two.post(f"{B}/nobody/load")
    assert (gone.status_code, gone.json()["code"]) == (404, "model_not_found")
