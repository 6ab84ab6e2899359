"""docs/install.md from its first command to its last: what stays when the release goes, and what not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.chat import chat, chat_model
from support.client_pod import ClientPod
from support.cluster import Kubectl, soon
from support.installing import CRDS, documented, remains, run, the_documented
from support.models_server import HOST, ModelsServer
from support.release import LAB, Release, lab_profile
from support.serving_truth import condition, serving_pods, workloads


def test_every_command_is_run_by_one_of_these_tests() -> None:
    """Two of them in test_install, the upgrade in test_upgrade, the others here."""
    assert [command.split(" pumas")[0].split(" -")[0] for command in documented()] == [
        "helm install",
        "kubectl label namespace",
        "helm install",
        "kubectl create secret generic",
        "helm template",
        "kubectl create role",
        "kubectl create rolebinding",
        "helm upgrade",
        "helm uninstall",
        "kubectl delete crd servedmodels.serving.pumas.dev servingprofiles.serving.pumas.dev",
        "kubectl delete namespace",
    ]


def test_the_chart_is_rendered_without_the_cluster() -> None:
    rendered = run(the_documented("helm template"))
    assert 'secretName: "pumas-engine-key"' in rendered
    # It uses the key that is there, and makes none.
    assert "kind: Secret" not in rendered


@pytest.mark.budget(150)
def test_what_serves_outlives_the_release_until_all_is_removed(
    nothing_installed: Release,
    team: Kubectl,
    client_pod: ClientPod,
    models_server: ModelsServer,
    namespaces: Callable[[str], Kubectl],
) -> None:
    release = nothing_installed
    release.kubectl("delete", "namespace", release.namespace)
    run(the_documented("--create-namespace"))
    run(the_documented("kubectl label"))
    release.kubectl.apply(lab_profile([HOST]))
    team.apply(chat_model(models_server, "kept"))
    team("wait", "--for=condition=Servable", "servedmodel/kept", "--timeout=60s")
    before = _state(release, team)

    run(the_documented("helm uninstall"))
    soon(lambda: not release.kubectl.get("pods")["items"], "no pod of the release")
    assert _state(release, team) == before
    [pod] = team.get("pods", "--field-selector=status.phase=Running")["items"]
    assert client_pod.ask(f"http://{pod['status']['podIP']}:8081/readyz").status == 200

    run(the_documented("--create-namespace"))
    soon(lambda: chat(client_pod, release.url, "kept").status == 200, "an answer", 10)
    # Something for the operator to do: when it is done, it has seen all that there is.
    team("scale", "servedmodel/kept", "--replicas=2")
    soon(lambda: len(serving_pods(team)) == 2, "a second pod")
    assert before["pods"].items() <= serving_pods(team).items(), "the first pod was not replaced"
    assert workloads(team) == {uid: was + 1 for uid, was in before["workloads"].items()}

    _let_a_team_in(namespaces("team-a"))
    run(the_documented("helm uninstall"))
    run(the_documented("kubectl delete crd"))
    run(the_documented("kubectl delete namespace"))
    soon(lambda: not remains(), "a cluster without anything of ours")


def _let_a_team_in(team_a: Kubectl) -> None:
    member = ("auth", "can-i", "--as=somebody", "--as-group=team-a")
    models = "servedmodels.serving.pumas.dev"
    assert team_a.attempt(*member, "create", models).stdout == "no\n"
    run(the_documented("kubectl create role "))
    run(the_documented("kubectl create rolebinding"))
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete"):
        assert team_a(*member, verb, models) == "yes\n"
    assert team_a.attempt(*member, "get", "secrets").stdout == "no\n"
    assert team_a.attempt(*member, "patch", models, "--subresource=status").stdout == "no\n"


def _state(release: Release, team: Kubectl) -> dict[str, Any]:
    """All that an uninstall leaves, in a form that differs where any of it was made anew."""
    kept = ("secret/pumas-key", "servingprofile/default", f"servingprofile/{LAB}")
    return {
        "Servable": condition(team, "kept", "Servable"),
        "pods": serving_pods(team),
        "workloads": workloads(team),
        "kept": {each["metadata"]["uid"] for each in release.kubectl.get(*kept)["items"]},
        "crds": {each["metadata"]["uid"] for each in Kubectl().get("crd", *CRDS)["items"]},
    }
