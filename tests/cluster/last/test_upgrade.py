"""`helm upgrade` from an earlier release: new CRDs, and no model that stops for it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from support.chat import chat, chat_model, chatting
from support.client_pod import ClientPod
from support.cluster import Kubectl, soon
from support.helm import CHART
from support.installing import CRDS, PREVIOUS, present_images, run, the_documented
from support.models_server import HOST, ModelsServer
from support.release import Release, lab_profile
from support.serving_truth import condition, serving_pods

PRESENT = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))


def test_the_earlier_chart_is_an_earlier_one() -> None:
    chart = yaml.safe_load(run(f"helm show chart {PREVIOUS}"))
    assert (chart["name"], chart["version"]) == (PRESENT["name"], "0.0.9")


@pytest.mark.budget(120)
def test_crds_are_upgraded_and_models_serve_on(
    nothing_installed: Release, team: Kubectl, client_pod: ClientPod, models_server: ModelsServer
) -> None:
    release = nothing_installed
    run(f"helm install pumas {PREVIOUS} -n pumas-system --wait {present_images()}")
    release.kubectl.apply(lab_profile([HOST]))
    suspended = chat_model(models_server, "kept", suspend=True)
    refused = team.attempt("create", "-f", "-", stdin=yaml.safe_dump(suspended))
    assert 'unknown field "spec.suspend"' in refused.stderr
    assert "suspend" not in _fields()
    team.apply(chat_model(models_server, "kept"))
    team("wait", "--for=condition=Servable", "servedmodel/kept", "--timeout=60s")
    soon(lambda: chat(client_pod, release.url, "kept").status == 200, "a first answer", 10)
    before = _told(team)

    with chatting(client_pod, release.url, "kept") as answers:
        run(the_documented("helm upgrade"))
        # Those of the release before go on for a while after Helm has seen the new ones.
        soon(lambda: _versions(release) == {PRESENT["appVersion"]}, "no pod of the earlier release")
    assert {answer.status for answer in answers.result()} == {200}
    assert len(answers.result()) >= 5, "all through the upgrade"
    [listed] = yaml.safe_load(run("helm list -n pumas-system --output yaml"))
    assert (listed["chart"], listed["status"]) == (f"pumas-{PRESENT['version']}", "deployed")
    assert _told(team) == before

    assert "suspend" in _fields()
    team.apply(suspended)
    soon(lambda: condition(team, "kept", "Servable")["reason"] == "Suspended", "a suspended model")
    soon(lambda: serving_pods(team) == {}, "no pod of it")


def _fields() -> set[str]:
    """What the cluster's ServedModels may say in their spec."""
    [version] = Kubectl().get("crd", CRDS[0])["spec"]["versions"]
    return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def _told(team: Kubectl) -> dict[str, Any]:
    """What is the same as long as the model serves without a break from the same pod."""
    return {"Servable": condition(team, "kept", "Servable"), "pods": serving_pods(team)}


def _versions(release: Release) -> set[str]:
    """Of the charts that pods of operator and router are of."""
    pods = release.kubectl.get("pods", "--selector=app.kubernetes.io/managed-by=Helm")["items"]
    return {pod["metadata"]["labels"]["app.kubernetes.io/version"] for pod in pods}
