"""A release with two operators: one leads, and the pods may be replaced at any moment."""

from __future__ import annotations

import pytest

from support.chat import chat_model
from support.cluster import Kubectl, soon
from support.installing import run, the_documented
from support.models_server import HOST, ModelsServer
from support.release import Release, lab_profile
from support.serving_truth import condition, serving_pods, workloads

LEADS, WAITS = "this operator leads", "another operator leads; this one waits"


@pytest.mark.budget(150)
def test_one_of_two_leads_and_a_rollout_of_both_loses_nothing(
    nothing_installed: Release, team: Kubectl, models_server: ModelsServer
) -> None:
    release = nothing_installed
    run(f"{the_documented('--create-namespace')} --set operator.replicas=2")
    release.kubectl.apply(lab_profile([HOST]))
    team.apply(chat_model(models_server, "before"))
    team("wait", "--for=condition=Servable", "servedmodel/before", "--timeout=60s")
    first = _told(release)
    assert sorted(first.values()) == [[WAITS], [LEADS]]
    assert first[_holder(release)] == [LEADS]
    served = condition(team, "before", "Servable"), serving_pods(team), workloads(team)

    release.kubectl("rollout", "restart", f"deployment/{release.operator}")
    team.apply(chat_model(models_server, "during"))
    release.kubectl("rollout", "status", f"deployment/{release.operator}", "--timeout=60s")
    soon(lambda: _holder(release) in _pods(release) - first.keys(), "a leader among the new pods")
    team("wait", "--for=condition=Servable", "servedmodel/during", "--timeout=60s")

    soon(lambda: _pods(release).isdisjoint(first), "none of the first pods")
    said = _told(release)
    assert len(said) == 2 and said[_holder(release)][-1] == LEADS
    assert [LEADS in each for each in said.values()].count(True) == 1
    assert condition(team, "before", "Servable") == served[0]
    assert served[1].items() < serving_pods(team).items() and len(serving_pods(team)) == 2
    assert served[2].items() < workloads(team).items() and len(workloads(team)) == 2


def _pods(release: Release) -> set[str]:
    """Names of the operator's pods."""
    selector = "--selector=app.kubernetes.io/component=operator"
    return set(
        release.kubectl("get", "pods", selector, "--output=name").replace("pod/", "").split()
    )


def _told(release: Release) -> dict[str, list[str]]:
    """What each of them has said so far of who leads."""
    logs = {pod: release.kubectl("logs", pod) for pod in _pods(release)}
    return {
        pod: [said for line in log.splitlines() for said in (LEADS, WAITS) if line.endswith(said)]
        for pod, log in logs.items()
    }


def _holder(release: Release) -> str:
    """The pod that has the Lease; empty while nobody has it."""
    holder: str = release.kubectl.get("lease", "pumas-operator")["spec"]["holderIdentity"]
    return holder
