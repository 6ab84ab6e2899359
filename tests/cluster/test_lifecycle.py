"""A model that is loaded on demand, on a real cluster: asleep, waked by a request, put to rest."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.chat import chat
from support.client_pod import ClientPod
from support.cluster import kubectl_command, kubectl_environment, soon
from support.models_server import ModelsServer
from support.team_models import TeamModels

ACCEPTED, READY, SERVABLE = ConditionType.ACCEPTED, ConditionType.READY, ConditionType.SERVABLE
INSPECTED, ASLEEP = "The file was inspected and can be served.", "No pod is wanted."
ROUNDS = 3
#: From idle for a minute to no pod: the operator's look, the drain, and the pod's end.
REST_SECONDS = 120.0


@contextmanager
def watched_states(models: TeamModels, name: str) -> Iterator[list[str]]:
    """The STATE column of `kubectl get sm NAME -w`, line by line."""
    states: list[str] = []
    process = subprocess.Popen(
        [*kubectl_command(), "-n", models.team.namespace, "get", "sm", name, "-w", "--no-headers"],
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl_environment(),
    )
    assert process.stdout is not None
    lines = process.stdout

    def read() -> None:
        for line in lines:
            states.append(line.split()[4])

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield states
    finally:
        process.kill()
        process.wait()
        reader.join()
        lines.close()


def changes(states: list[str]) -> list[str]:
    """Without repetitions."""
    return [state for at, state in enumerate(states) if at == 0 or states[at - 1] != state]


@pytest.mark.budget(480)
def test_zero_request_answer_idle_zero_three_times_round(
    models: TeamModels, models_server: ModelsServer, client_pod: ClientPod
) -> None:
    name = "sleeper"
    source = models_server.source("tiny-chat.gguf")
    activation = {"onDemand": True, "idleSeconds": 60}
    models.team.apply(models.body(name, source=source, replicas=0, activation=activation))
    models.tells(name, ACCEPTED, "True", Reason.ACCEPTED, INSPECTED)
    models.tells(name, READY, "True", Reason.SCALED_TO_ZERO, ASLEEP)
    alias = models.status(name)["model"]
    url = f"/v1/capabilities?model={alias}&profile=lab"
    soon(lambda: client_pod.ask(url).status == 200, "the router to hear of it", 10)
    row = client_pod.ask(url).json()
    assert row["activation"] == {"on_demand": True}
    assert {c["availability"]["state"] for c in row["capabilities"]} == {"unavailable"}
    with watched_states(models, name) as watched:
        for _ in range(ROUNDS):
            answer = chat(client_pod, "", alias)
            assert answer.status == 200, answer.body
            models.tells(name, SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")
            models.tells(name, SERVABLE, "False", Reason.SCALED_TO_ZERO, ASLEEP, REST_SECONDS)
            models.tells(name, READY, "True", Reason.SCALED_TO_ZERO, ASLEEP)
            soon(lambda: not models.team.get("pods", "-l", selector(models, name))["items"], "rest")
        life = ["requested", "loading", "loaded", "unloading", "unloaded"]
        soon(lambda: changes(watched)[-5:] == life, "the same story", 10)
        assert changes(watched) == ["unloaded", *life * ROUNDS]
    told = [body["status"]["loadState"] for body in models.seen(name) if "status" in body]
    assert changes(told)[-len(life) * ROUNDS :] == life * ROUNDS
    assert models.status(name)["runtime"]["contextTokens"] > 0, "what it was is still known"


def selector(models: TeamModels, name: str) -> str:
    """Its serving pods."""
    told: str = models.status(name)["selector"]
    return told


@pytest.mark.budget(240)
def test_a_load_that_fails_is_told_to_who_asked_and_ends_at_zero(
    models: TeamModels, models_server: ModelsServer, client_pod: ClientPod
) -> None:
    variable = {"name": "LLAMA_SERVER_BIN", "value": "/usr/bin/no-such-engine"}
    broken = models.profile("broken", env=[variable])
    name = "broken"
    source = models_server.source("tiny-chat.gguf")
    spec = {"source": source, "replicas": 0, "activation": {"onDemand": True}}
    models.team.apply(models.body(name, profile=broken, **spec))
    models.tells(name, ACCEPTED, "True", Reason.ACCEPTED, INSPECTED)
    models.tells(name, READY, "True", Reason.SCALED_TO_ZERO, ASLEEP)
    alias = models.status(name)["model"]
    soon(lambda: chat(client_pod, "", alias).status != 404, "the router to hear of it", 60)
    answer = chat(client_pod, "", alias)
    assert (answer.status, answer.json()["error"]["code"]) == (503, "model_load_failed")
    assert "LLAMA_SERVER_BIN" in answer.json()["error"]["message"]
    assert answer.headers["x-pumas-outcome"] == "not_admitted"
    models.tells(name, READY, "True", Reason.SCALED_TO_ZERO, ASLEEP, REST_SECONDS)
    assert models.status(name)["loadState"] == "unloaded"
    assert models.status(name)["error"]["reason"] == Reason.ENGINE_FAILED
    models.profile("broken", env=[])
    soon(lambda: chat(client_pod, "", alias).status == 200, "an answer, once it is mended", 60)
