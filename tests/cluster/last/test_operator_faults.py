"""The operator killed, paused, stopped, and the API server away: nothing serves worse, and all comes right.

Run alone: each of them concerns every model of the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from pumas_crds.vocabulary import COMPONENT_LABEL, INSTANCE_LABEL, ConditionType, Reason
from support import audit_log
from support.asking import asking
from support.cluster import Kubectl, script, soon
from support.models_server import ModelsServer
from support.pod_processes import kill, paused
from support.release import LAB, Release
from support.serving_truth import serving_pods, workloads
from support.team_models import TeamModels

SERVABLE = ConditionType.SERVABLE
ANSWERS = "1 of 1 pods answer."
PROGRAM = "pumas_operator"
AWAY_SECONDS = 60
NAMES = ("one", "two", "three")


def operator_pods(release: Release) -> dict[str, str]:
    """The uid of each of the operator's pods, by name."""
    selector = "--selector=app.kubernetes.io/component=operator"
    pods = release.kubectl.get("pods", selector)["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def pods_of(release: Release) -> list[str]:
    """The names of all pods of operator and routers."""
    selector = f"--selector={INSTANCE_LABEL}={release.name},{COMPONENT_LABEL} in (operator,router)"
    return [pod["metadata"]["name"] for pod in release.kubectl.get("pods", selector)["items"]]


def leader(release: Release) -> str:
    """The pod that has the Lease; empty while nobody has it."""
    holder: str = release.kubectl.get("lease", "pumas-operator")["spec"]["holderIdentity"]
    return holder


def restarts(release: Release, pod: str) -> int:
    """How often the pod's container was started again."""
    [container] = release.kubectl.get("pod", pod)["status"]["containerStatuses"]
    count: int = container["restartCount"]
    return count


@contextmanager
def operators(release: Release, count: int) -> Iterator[None]:
    """Another number of operators while the block lasts."""
    scale = ("scale", f"deployment/{release.operator}")
    ready = f"--for=jsonpath={{.status.readyReplicas}}={count}"
    release.kubectl(*scale, f"--replicas={count}")
    if count:
        release.kubectl("wait", ready, f"deployment/{release.operator}", "--timeout=60s")
    soon(lambda: len(operator_pods(release)) == count, f"{count} operators")
    try:
        yield
    finally:
        release.kubectl(*scale, "--replicas=1")
        release.wait()
        soon(lambda: len(operator_pods(release)) == 1, "one operator")
        soon(lambda: leader(release) in operator_pods(release), "its lead")


@pytest.mark.own_cluster
@pytest.mark.budget(150)
def test_an_operator_that_is_killed_goes_on_where_it_was(
    models: TeamModels, models_server: ModelsServer, deployed: Release
) -> None:
    [uid] = operator_pods(deployed).values()
    team, source = models.team, models_server.source("tiny-embed.gguf")
    team.apply(*(models.body(name, source=source) for name in NAMES))
    for kind in ("jobs", "deployments"):
        soon(lambda: team("get", kind, "--output=name"), kind)  # noqa: B023
        kill(uid, PROGRAM)
    for name in NAMES:
        models.tells(name, SERVABLE, "True", Reason.AVAILABLE, ANSWERS)
    assert len(serving_pods(team)) == len(workloads(team)) == len(NAMES)
    jobs = [job["metadata"]["name"] for job in team.get("jobs")["items"]]
    assert len(jobs) <= len(NAMES), f"no file is inspected twice: {jobs}"
    told = [
        (event["involvedObject"]["name"], event["reason"], event["message"])
        for event in team.get("events", "--field-selector=involvedObject.kind=ServedModel")["items"]
        if event["message"].startswith(f"{SERVABLE} is True")
    ]
    assert sorted(told) == sorted(set(told)), "nothing is told twice"


@pytest.mark.own_cluster
@pytest.mark.budget(180)
def test_a_leader_that_is_paused_writes_nothing_once_another_leads(
    models: TeamModels, models_server: ModelsServer, deployed: Release
) -> None:
    team, source = models.team, models_server.source("tiny-embed.gguf")
    team.apply(models.body("before", source=source))
    models.tells("before", SERVABLE, "True", Reason.AVAILABLE, ANSWERS)
    served = serving_pods(team), workloads(team)
    with operators(deployed, 2):
        first = leader(deployed)
        before = restarts(deployed, first)
        with paused(operator_pods(deployed)[first], PROGRAM):
            # The one that sleeps has not heard of it, and the other does not lead yet.
            team.apply(models.body("during", source=source))
            soon(lambda: leader(deployed) not in ("", first), "another leader")
            since = audit_log.size()
            models.tells("during", SERVABLE, "True", Reason.AVAILABLE, ANSWERS)
        second = leader(deployed)
        soon(lambda: restarts(deployed, first) > before, "the end of the one that slept", 90)
        models.patch("during", catalogue={"displayName": "Another generation"})
        models.tells("during", SERVABLE, "True", Reason.AVAILABLE, ANSWERS)
        assert leader(deployed) == second
        account = f"{deployed.namespace}:{deployed.operator}"
        told = [
            each
            for each in audit_log.asked(account, since)
            if each.verb not in audit_log.READS and each.code < 400
        ]
        assert {each.pod for each in told} == {second}
    for uid, times in served[0].items():
        assert serving_pods(team)[uid] == times
    assert served[1].items() <= workloads(team).items()


@pytest.mark.own_cluster
@pytest.mark.budget(240)
def test_without_an_api_server_what_serves_goes_on_serving(
    models: TeamModels, models_server: ModelsServer, deployed: Release
) -> None:
    team, source = models.team, models_server.source("tiny-embed.gguf")
    # Used all the time, and unheard for as long as it may be idle.
    activation = {"onDemand": True, "idleSeconds": AWAY_SECONDS}
    team.apply(models.body("stays", source=source, activation=activation))
    models.tells("stays", SERVABLE, "True", Reason.AVAILABLE, ANSWERS)
    alias, url = models.status("stays")["model"], deployed.direct_url()
    before = serving_pods(team)
    restarted = {name: restarts(deployed, name) for name in pods_of(deployed)}
    asked: dict[str, object] = {"model": alias, "input": "hello"}
    with asking(url, "/v1/embeddings", asked) as answers:
        soon(lambda: len(answers) > 2, "answers")
        down = script("down.sh", "apiserver")
        assert down.returncode == 0, down.stderr
        try:
            until = time.monotonic() + AWAY_SECONDS
            with httpx.Client(base_url=url, trust_env=False) as client:
                while time.monotonic() < until:
                    time.sleep(1)  # the minute has to pass
                    listed = client.get("/v1/capabilities", params={"model": alias, "profile": LAB})
                    rows = listed.json()["capabilities"]
                    assert any(row["availability"]["state"] == "available" for row in rows)
        finally:
            up = script("up.sh")
        assert up.returncode == 0, up.stderr
        team.apply(models.body("comes", source=source))
        team("wait", "--for=condition=Servable", "servedmodel/comes", "--timeout=90s")
        assert before.items() <= serving_pods(team).items(), "nobody touched what is in use"
    assert set(answers) == {200} and len(answers) >= AWAY_SECONDS
    team("delete", "servedmodel", "stays")
    soon(lambda: len(serving_pods(team)) == 1, "the end of what was deleted")
    assert not before.keys() & serving_pods(team).keys()
    with httpx.Client(base_url=url, trust_env=False) as client:
        soon(
            lambda: client.post("/v1/embeddings", json=asked).status_code == 404, "its end here", 20
        )
    assert {name: restarts(deployed, name) for name in pods_of(deployed)} == restarted


@pytest.mark.budget(150)
def test_without_an_operator_what_is_deleted_is_gone_all_the_same(
    models: TeamModels, models_server: ModelsServer, deployed: Release
) -> None:
    team, source = models.team, models_server.source("tiny-embed.gguf")
    team.apply(*(models.body(name, source=source) for name in ("one", "two")))
    for name in ("one", "two"):
        models.tells(name, SERVABLE, "True", Reason.AVAILABLE, ANSWERS)
    with operators(deployed, 0):
        team("delete", "servedmodel", "one", "--timeout=10s")
        selector = "--selector=app.kubernetes.io/instance=one"
        kinds = "deployment,service,pdb,networkpolicy,secret,job,pod"
        soon(lambda: not team("get", kinds, selector, "--output=name"), "what belonged to it")
        assert len(serving_pods(team)) == 1, "the other one serves on"
        Kubectl()("delete", "namespace", team.namespace, "--wait=false")
        there = ("get", "namespace", team.namespace, "--ignore-not-found", "--output=name")
        soon(lambda: not Kubectl()(*there), "the end of the namespace", 30)
