"""What a model in the cluster says of itself, and the pods that serve it, as comparable values."""

from __future__ import annotations

from typing import Any

from pumas_crds.vocabulary import NAME_LABEL, WORKER_NAME
from support.cluster import Kubectl


def condition(team: Kubectl, model: str, kind: str) -> dict[str, Any]:
    """A condition with the moment since which it is so; empty where the status has none."""
    told = team.get("servedmodel", model).get("status", {}).get("conditions", [])
    found: list[dict[str, Any]] = [each for each in told if each["type"] == kind]
    return found[0] if found else {}


def serving_pods(team: Kubectl) -> dict[str, int]:
    """How often each serving pod of the namespace was started again, by its uid."""
    return {
        pod["metadata"]["uid"]: sum(
            container["restartCount"] for container in pod["status"].get("containerStatuses", [])
        )
        for pod in team.get("pods", f"--selector={NAME_LABEL}={WORKER_NAME}")["items"]
    }


def workloads(team: Kubectl) -> dict[str, int]:
    """The generation of each Deployment of the namespace: what a change of its spec counts up."""
    return {
        each["metadata"]["uid"]: each["metadata"]["generation"]
        for each in team.get("deployments")["items"]
    }
