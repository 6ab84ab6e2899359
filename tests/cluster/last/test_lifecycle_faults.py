"""Loading while a router is killed, and resting while the operator is. Run alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.cluster import soon
from support.models_server import ModelsServer
from support.pod_processes import kill
from support.release import Release
from support.serving_truth import serving_pods
from support.team_models import TeamModels

ACCEPTED, READY = ConditionType.ACCEPTED, ConditionType.READY
INSPECTED, ASLEEP = "The file was inspected and can be served.", "No pod is wanted."
MESSAGE = {"role": "user", "content": "hello"}


def asleep(models: TeamModels, models_server: ModelsServer, name: str) -> str:
    """A model on demand that sleeps; its alias."""
    activation = {"onDemand": True, "idleSeconds": 60}
    source = models_server.source("tiny-chat.gguf")
    models.team.apply(models.body(name, source=source, replicas=0, activation=activation))
    models.tells(name, ACCEPTED, "True", Reason.ACCEPTED, INSPECTED)
    models.tells(name, READY, "True", Reason.SCALED_TO_ZERO, ASLEEP)
    alias: str = models.status(name)["model"]
    return alias


def pods(release: Release, component: str) -> dict[str, tuple[str, str]]:
    """Uid and address of each pod of a component, by name."""
    selector = f"--selector=app.kubernetes.io/component={component}"
    return {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"]["podIP"])
        for pod in release.kubectl.get("pods", selector)["items"]
    }


def ask(base: str, alias: str) -> httpx.Response:
    asked = {"model": alias, "max_tokens": 2, "messages": [MESSAGE]}
    with httpx.Client(base_url=base, trust_env=False, timeout=120) as client:
        return client.post("/v1/chat/completions", json=asked)


def spec_of(models: TeamModels, name: str) -> tuple[int, int]:
    """Wanted pods, and the generation: what every change of them counts up."""
    body = models.team.get("sm", name)
    return body["spec"]["replicas"], body["metadata"]["generation"]


@pytest.mark.own_cluster
@pytest.mark.budget(120)
def test_a_router_that_is_killed_during_a_load_leaves_one_load(
    models: TeamModels, models_server: ModelsServer, deployed: Release
) -> None:
    alias = asleep(models, models_server, "llm")
    routers = pods(deployed, "router")
    first, second = sorted(routers)
    for _, address in routers.values():
        path = f"http://{address}:8080/v1/capabilities?model={alias}&profile=lab"
        soon(lambda: httpx.get(path, trust_env=False).status_code == 200, "it is known", 10)  # noqa: B023
    replicas, generation = spec_of(models, "llm")
    assert replicas == 0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, f"http://{routers[first][1]}:8080", alias)
        soon(lambda: spec_of(models, "llm")[0] == 1, "the load")
        kill(routers[first][0], "pumas_server.router")
        with pytest.raises(httpx.TransportError):
            waiting.result(30)
    answer = ask(f"http://{routers[second][1]}:8080", alias)
    assert answer.status_code == 200, answer.text
    assert spec_of(models, "llm") == (1, generation + 1), "it was loaded once"


@pytest.mark.own_cluster
@pytest.mark.budget(240)
def test_a_model_comes_to_rest_though_the_operator_is_killed_as_it_does_it(
    models: TeamModels, models_server: ModelsServer, deployed: Release
) -> None:
    alias = asleep(models, models_server, "llm")
    soon(lambda: ask(deployed.direct_url(), alias).status_code == 200, "an answer", 60)
    soon(lambda: spec_of(models, "llm")[0] == 0, "the decision to rest", 150)
    [(uid, _)] = pods(deployed, "operator").values()
    kill(uid, "pumas_operator")
    soon(lambda: not serving_pods(models.team), "the end of its pods", 90)

    def status() -> dict[str, object]:
        told: dict[str, object] = models.team.get("sm", "llm")["status"]
        return told

    soon(lambda: status()["loadState"] == "unloaded", "its truth", 90)
    assert status()["lastReplicas"] == 1
