"""The children beside the Deployment: found by labels, guarded, and owned."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pumas_crds.serving_profile import BUILT_IN_DEFAULT
from pumas_operator.children import build_children
from pumas_operator.inspection_job import build_inspection_job
from pumas_operator.manifests import Settings
from support.models import served_model

SETTINGS = Settings(image="registry.example/pumas-serving:1", namespace="pumas-system")
#: By kind, as an API server has them.
CHILDREN: dict[str, Any] = {
    str(child["kind"]): child
    for child in (
        *build_children(
            served_model("3b.tiny", uid="uid-of-3b.tiny"), BUILT_IN_DEFAULT, SETTINGS, "the-key"
        ),
        build_inspection_job(
            served_model("3b.tiny", uid="uid-of-3b.tiny"), BUILT_IN_DEFAULT, SETTINGS
        ),
    )
}
SELECTOR = {
    "app.kubernetes.io/name": "pumas-worker",
    "serving.pumas.dev/model-uid": "uid-of-3b.tiny",
}


def test_what_there_is_in_the_order_in_which_it_is_made() -> None:
    assert list(CHILDREN) == [
        "Secret",
        "Service",
        "PodDisruptionBudget",
        "NetworkPolicy",
        "Deployment",
        "Job",
    ]


@pytest.mark.parametrize("kind", CHILDREN)
def test_every_child_says_whose_it_is(kind: str) -> None:
    metadata = CHILDREN[kind]["metadata"]
    labels = metadata["labels"]
    assert labels["app.kubernetes.io/part-of"] == "pumas-serving"
    assert labels["app.kubernetes.io/managed-by"] == "pumas-operator"
    assert labels["serving.pumas.dev/model-uid"] == "uid-of-3b.tiny"
    assert labels["serving.pumas.dev/model"] == labels["app.kubernetes.io/instance"]
    assert metadata["annotations"]["serving.pumas.dev/model-name"] == "3b.tiny"
    (owner,) = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("uid-of-3b.tiny", True)
    assert owner["blockOwnerDeletion"] is False
    assert "finalizers" not in metadata


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_pods_say_it_too(kind: str) -> None:
    metadata = CHILDREN[kind]["spec"]["template"]["metadata"]
    assert metadata["labels"] == CHILDREN[kind]["metadata"]["labels"]
    assert metadata["annotations"]["serving.pumas.dev/model-name"] == "3b.tiny"


def test_only_serving_pods_are_selected() -> None:
    serving = CHILDREN["Deployment"]["spec"]["template"]["metadata"]["labels"]
    inspecting = CHILDREN["Job"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        CHILDREN["Service"]["spec"]["selector"],
        CHILDREN["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        CHILDREN["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector == SELECTOR
        assert selector.items() <= serving.items()
        assert not selector.items() <= inspecting.items()


def test_the_service_is_headless_and_names_its_ports() -> None:
    spec = CHILDREN["Service"]["spec"]
    assert spec["clusterIP"] == "None"
    ports = {port["name"]: (port["port"], port["targetPort"]) for port in spec["ports"]}
    assert ports == {"engine": (8080, "engine"), "supervisor": (8081, "supervisor")}
    assert CHILDREN["Service"]["metadata"]["name"][0].isalpha()


def test_a_node_that_is_drained_waits_for_one_pod_and_for_no_broken_one() -> None:
    spec = CHILDREN["PodDisruptionBudget"]["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_who_may_reach_which_port() -> None:
    spec = CHILDREN["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    reached = {
        port["port"]: {
            peer["podSelector"]["matchLabels"]["app.kubernetes.io/name"] for peer in rule["from"]
        }
        for rule in spec["ingress"]
        for port in rule["ports"]
    }
    assert reached == {
        "engine": {"pumas-router"},
        "supervisor": {"pumas-router", "pumas-operator"},
    }
    peers = [peer for rule in spec["ingress"] for peer in rule["from"]]
    home = {"matchLabels": {"kubernetes.io/metadata.name": "pumas-system"}}
    assert all(peer["namespaceSelector"] == home for peer in peers), "anybody can give a label"


def test_the_secret_is_the_one_that_pods_mount() -> None:
    secret = CHILDREN["Secret"]
    assert base64.b64decode(secret["data"]["engine-key"]) == b"the-key"
    volumes = CHILDREN["Deployment"]["spec"]["template"]["spec"]["volumes"]
    (mounted,) = [v["secret"]["secretName"] for v in volumes if "secret" in v]
    assert mounted == secret["metadata"]["name"]
