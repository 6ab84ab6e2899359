"""Loading and resting while routers, the operator or the API server are away. Run alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.cluster import script, soon
from support.models_server import ModelsServer
from support.pod_processes import kill
from support.release import Release
from support.serving_truth import serving_pods
from support.team_models import TeamModels

ACCEPTED, READY = ConditionType.ACCEPTED, ConditionType.READY
INSPECTED, ASLEEP = "The file was inspected and can be served.", "No pod is wanted."
AWAY_SECONDS = 30
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


@contextmanager
def asking(base: str, alias: str) -> Iterator[list[int]]:
    """Call again and again while the block lasts; the statuses so far."""
    over, answers = threading.Event(), []

    def call() -> None:
        while not over.wait(0.5):
            answers.append(ask(base, alias).status_code)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    try:
        yield answers
    finally:
        over.set()
        caller.join()


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
@pytest.mark.budget(300)
def test_use_outlives_an_api_server_that_is_away_and_rest_an_operator_that_is_killed(
    models: TeamModels, models_server: ModelsServer, deployed: Release
) -> None:
    alias = asleep(models, models_server, "llm")
    base = deployed.direct_url()
    soon(lambda: ask(base, alias).status_code == 200, "an answer", 60)
    before = serving_pods(models.team)
    with asking(base, alias) as answers:
        soon(lambda: len(answers) > 2, "answers")
        down = script("down.sh", "apiserver")
        assert down.returncode == 0, down.stderr
        try:
            time.sleep(AWAY_SECONDS)  # it has to pass
        finally:
            up = script("up.sh")
        assert up.returncode == 0, up.stderr
        # Longer than it may be idle, as the operator could think of one that it did not hear of.
        until = len(answers) + 90
        soon(lambda: len(answers) >= until, "answers after that", 120)
    assert set(answers) == {200}
    assert serving_pods(models.team) == before, "nobody touched it"
    soon(lambda: spec_of(models, "llm")[0] == 0, "the decision to rest", 120)
    [(uid, _)] = pods(deployed, "operator").values()
    kill(uid, "pumas_operator")
    soon(lambda: not serving_pods(models.team), "the end of its pods", 90)
    status = models.team.get("sm", "llm")["status"]
    soon(lambda: models.team.get("sm", "llm")["status"]["loadState"] == "unloaded", "its truth", 90)
    assert status["lastReplicas"] == 1
