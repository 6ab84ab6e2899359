"""Installs that serve some namespaces only: alone, beside another one, and with a key of one's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.chat import chat, chat_model
from support.client_pod import ClientPod
from support.cluster import Kubectl, soon
from support.installing import attempt, remains, run, the_documented
from support.models_server import HOST, ModelsServer
from support.release import Release, lab_profile

SERVABLE = ("wait", "--for=condition=Servable", "servedmodel", "--all", "--timeout=90s")
OTHER = Release("other", "pumas-other")
INSTALL_OTHER = (
    f"helm install {OTHER.name} charts/pumas -n {OTHER.namespace} --wait"
    " --set 'watchNamespaces={team-c}' --set router.replicas=1"
)


@pytest.mark.budget(150)
def test_two_releases_each_serve_the_namespaces_that_they_were_given(
    nothing_installed: Release,
    client_pod: ClientPod,
    models_server: ModelsServer,
    namespaces: Callable[[str], Kubectl],
) -> None:
    release = nothing_installed
    teams = {name: namespaces(name) for name in ("team-a", "team-b", "team-c")}
    namespaces(OTHER.namespace)
    run(the_documented("kubectl create secret"))
    own_key = "--set keySecret.existingName=pumas-engine-key"
    run(f"{the_documented('watchNamespaces')} {own_key} --wait")
    assert remains("clusterroles", "clusterrolebindings", "secrets") == []
    release.kubectl.apply(lab_profile([HOST]))
    for name, team in teams.items():
        team.apply(chat_model(models_server, f"of-{name}"))
    for name in ("team-a", "team-b"):
        teams[name](*SERVABLE)
    assert "status" not in teams["team-c"].get("servedmodel", "of-team-c")
    _serves(client_pod, release, "of-team-a", "of-team-b")

    refused = attempt(INSTALL_OTHER)
    assert refused.returncode != 0
    assert 'CustomResourceDefinition "servedmodels.serving.pumas.dev"' in refused.stderr
    run(f"{INSTALL_OTHER} --set crds.install=false")
    OTHER.kubectl.apply(lab_profile([HOST]))
    teams["team-c"](*SERVABLE)
    _serves(client_pod, OTHER, "of-team-c")
    _serves(client_pod, release, "of-team-a", "of-team-b")

    teams["team-a"]("delete", "servedmodel", "of-team-a")
    deployments = ("get", "deployments", "--output=name")
    soon(lambda: not teams["team-a"](*deployments), "no Deployment of a model that was deleted")
    assert teams["team-b"](*deployments) and teams["team-c"](*deployments)


def _serves(client: ClientPod, release: Release, *models: str) -> None:
    """Until the release's routers answer for these models and know no other; they hear a moment later."""
    wanted = {
        name: 200 if name in models else 404 for name in ("of-team-a", "of-team-b", "of-team-c")
    }
    soon(
        lambda: {name: chat(client, release.url, name).status for name in wanted} == wanted,
        f"answers of {release.router} for {models} alone",
        20,
    )
    listed = client.ask(f"{release.url}/v1/served-models").json()["models"]
    assert {each["model"] for each in listed} == set(models)
