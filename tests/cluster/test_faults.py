"""What goes wrong with a pod, an object or a spec is right again without a hand, and told meanwhile."""

from __future__ import annotations

import re

import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.chat import chat
from support.client_pod import ClientPod
from support.cluster import soon
from support.models_server import LONG, ModelsServer
from support.serving_truth import serving_pods
from support.team_models import TeamModels

SERVABLE, READY = ConditionType.SERVABLE, ConditionType.READY
ANYTHING = re.compile(".*", re.DOTALL)
#: Run in a serving pod: end the engine, which is the supervisor's only child.
KILL_ENGINE = """
import os, signal
from pathlib import Path
for entry in Path("/proc").iterdir():
    if entry.name.isdecimal() and entry.name not in ("1", str(os.getpid())):
        line = (entry / "cmdline").read_bytes()
        if b"engine_xllama" in line or b"llama-server" in line:
            os.kill(int(entry.name), signal.SIGKILL)
            print("killed")
"""


def serve(models: TeamModels, name: str, **spec: object) -> None:
    models.team.apply(models.body(name, **spec))
    models.tells(name, SERVABLE, "True", Reason.AVAILABLE, ANYTHING)
    models.tells(name, READY, "True", Reason.ROLLED_OUT, ANYTHING)


def pod_of(models: TeamModels, name: str) -> str:
    selector = models.status(name)["selector"]
    told = models.team("get", "pods", "-l", selector, "--output=name").split()
    return told[-1]


@pytest.mark.budget(120)
def test_an_engine_that_is_killed_is_started_again_in_its_pod(
    models: TeamModels, models_server: ModelsServer
) -> None:
    serve(models, "tiny", source=models_server.source("tiny-chat.gguf"))
    before = serving_pods(models.team)
    killed = models.team("exec", pod_of(models, "tiny"), "--", "python", "-c", KILL_ENGINE)
    assert killed.split() == ["killed"]
    models.told("tiny", SERVABLE, "False", Reason.NO_ENDPOINT, "No endpoint answers.")
    models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, ANYTHING)
    assert serving_pods(models.team) == before, "the supervisor lives on, and so does the pod"


@pytest.mark.budget(150)
def test_pods_that_are_deleted_are_replaced(
    models: TeamModels, models_server: ModelsServer, client_pod: ClientPod
) -> None:
    serve(models, "tiny", source=models_server.source("tiny-chat.gguf"))
    for how in ((), ("--grace-period=0", "--force")):
        before = set(serving_pods(models.team))
        models.team("delete", pod_of(models, "tiny"), "--wait=false", *how)
        soon(lambda: set(serving_pods(models.team)) - before, "another pod", 60)  # noqa: B023
        models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, ANYTHING)
        soon(lambda: len(serving_pods(models.team)) == 1, "the end of the old pod", 60)
        models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")
    alias = models.status("tiny")["model"]
    soon(lambda: chat(client_pod, "", alias).status == 200, "an answer", 10)


@pytest.mark.budget(180)
def test_a_spec_edit_rolls_and_with_surge_something_always_answers(
    models: TeamModels, models_server: ModelsServer
) -> None:
    source = models_server.source(LONG)
    surge = models.profile("surge", rollout="surge")
    models.team.apply(
        models.body("replaced", source=source), models.body("surged", source=source, profile=surge)
    )
    for name in ("replaced", "surged"):
        models.tells(name, READY, "True", Reason.ROLLED_OUT, ANYTHING)
    at = len(models.seen("surged"))
    for name in ("replaced", "surged"):
        models.patch(name, engine={"contextTokens": 1024})
    for name in ("replaced", "surged"):
        models.tells(name, READY, "True", Reason.ROLLED_OUT, ANYTHING)
        assert models.status(name)["runtime"]["contextTokens"] == 1024
    models.told("replaced", SERVABLE, "False", Reason.NO_ENDPOINT, "No endpoint answers.")
    told = [
        c["status"]
        for body in models.seen("surged")[at:]
        for c in body["status"]["conditions"]
        if c["type"] == SERVABLE
    ]
    assert set(told) == {"True"}


@pytest.mark.budget(200)
def test_scaling_goes_all_the_way_and_back(models: TeamModels, models_server: ModelsServer) -> None:
    serve(models, "tiny", source=models_server.source("tiny-chat.gguf"))
    models.team("scale", "sm/tiny", "--replicas=2")
    models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, "2 of 2 pods answer.")
    models.team("scale", "sm/tiny", "--replicas=0")
    models.tells("tiny", READY, "True", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    assert models.status("tiny")["loadState"] == "unloaded"
    assert models.status("tiny")["lastReplicas"] == 2
    models.team("scale", "sm/tiny", "--replicas=1")
    models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, ANYTHING)


@pytest.mark.budget(150)
def test_drift_is_repaired_and_what_was_deleted_comes_back(
    models: TeamModels, models_server: ModelsServer
) -> None:
    serve(models, "tiny", source=models_server.source("tiny-chat.gguf"))
    team = models.team
    named = [f"{kind}/tiny-serving" for kind in ("deployment", "service", "pdb", "networkpolicy")]
    wanted = {each: team.get(each)["metadata"]["labels"] for each in named}
    pods = serving_pods(team)
    team("scale", "deployment/tiny-serving", "--replicas=3")
    soon(lambda: team.get("deployment/tiny-serving")["spec"]["replicas"] == 1, "one replica", 30)
    strange = ("app.kubernetes.io/managed-by-", "app.kubernetes.io/part-of=another")
    for each in named[1:]:
        team("label", each, "--overwrite", *strange)
    for each in named[1:]:
        soon(lambda: team.get(each)["metadata"]["labels"] == wanted[each], each, 30)  # noqa: B023
    for each in named[1:]:
        team("delete", each, "--wait=true")
        soon(lambda: team.attempt("get", each).returncode == 0, each, 30)  # noqa: B023
    models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, ANYTHING)
    team("delete", "secret/tiny-engine-key")
    team("delete", "deployment/tiny-serving", "--wait=true")
    # The new pod waits for the Secret, and the operator looks whether it is there.
    soon(lambda: team.attempt("get", "secret/tiny-engine-key").returncode == 0, "the key", 90)
    models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")
    assert not set(serving_pods(team)) & set(pods)


@pytest.mark.budget(150)
def test_what_is_deleted_leaves_nothing_and_may_come_again_at_once(
    models: TeamModels, models_server: ModelsServer
) -> None:
    source = models_server.source("tiny-chat.gguf")
    serve(models, "tiny", source=source)
    first = models.team.get("sm", "tiny")["metadata"]["uid"]
    models.team("delete", "sm", "tiny", "--wait=true")
    models.team.apply(models.body("tiny", source=source))
    models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, ANYTHING)
    selector = f"serving.pumas.dev/model-uid={first}"
    kinds = "deployment,service,pdb,networkpolicy,secret,job,pod"
    soon(lambda: not models.team("get", kinds, "-l", selector, "-o", "name"), "nothing left", 60)
    models.team("delete", "sm", "tiny", "--wait=true")
    soon(lambda: not models.team("get", kinds, "-o", "name"), "nothing at all", 60)


@pytest.mark.budget(120)
def test_a_model_that_becomes_external_has_no_pods_of_ours(
    models: TeamModels, models_server: ModelsServer
) -> None:
    profile = models.profile("outside", allowedEndpointHosts=["far.example"])
    source = models_server.source("tiny-chat.gguf")
    models.team.apply(models.body("tiny", source=source, profile=profile))
    models.tells("tiny", SERVABLE, "True", Reason.AVAILABLE, ANYTHING)
    models.patch("tiny", source=None, runtime="external", endpoint={"url": "http://far.example"})
    kinds = "deployment,service,pdb,networkpolicy,job,pod"
    soon(lambda: not models.team("get", kinds, "-o", "name"), "nothing of ours", 60)
    models.tells("tiny", SERVABLE, "Unknown", Reason.NOT_OBSERVED, ANYTHING)


@pytest.mark.budget(120)
def test_a_namespace_is_gone_within_half_a_minute(
    models: TeamModels, models_server: ModelsServer
) -> None:
    serve(models, "tiny", source=models_server.source("tiny-chat.gguf"))
    models.team("delete", "namespace", models.team.namespace, "--wait=false")

    def gone() -> bool:
        return models.team.attempt("get", "namespace", models.team.namespace).returncode != 0

    soon(gone, "the end of the namespace", 30)
