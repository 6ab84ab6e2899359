"""Pods that the cluster tests run beside ours: one Python program under the level `restricted`."""

from __future__ import annotations

from typing import Any

from support.release import worker_image

#: No more than a container may say under the level `restricted`.
RESTRICTED: dict[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def small_deployment(
    name: str, command: list[str], version: str, **pod_and_container: Any
) -> dict[str, Any]:
    """A Deployment of one pod that has Python; another `version` replaces it.

    `volumes` belongs to the pod, anything else to its container.
    """
    pod = {"volumes": pod_and_container.pop("volumes", [])}
    container = {
        "name": name,
        "image": worker_image(),
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "securityContext": RESTRICTED,
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        **pod_and_container,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {"version": version}},
                "spec": {
                    "automountServiceAccountToken": False,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                    **pod,
                },
            },
        },
    }
