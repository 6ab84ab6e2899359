"""Kubernetes' pod security level `restricted`, as a function of a pod's spec.

The level's list of controls, written out. Where the level lets a pod or its containers say a thing,
so does this: a container's own word wins over its pod's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Spec: TypeAlias = dict[str, Any]

VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}
SECCOMP = ("RuntimeDefault", "Localhost")


def violations(spec: Spec) -> list[str]:
    """What the level would refuse; empty when the pod passes."""
    return [*_of_pod(spec), *(fault for each in containers(spec) for fault in _of(each, spec))]


def containers(spec: Spec) -> list[Spec]:
    """All containers of a pod."""
    return [*spec.get("initContainers", []), *spec["containers"]]


def _of_pod(spec: Spec) -> Iterator[str]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"{field} is true"
    for volume in spec.get("volumes", []):
        if kinds := volume.keys() - {"name"} - VOLUMES:
            yield f"volume {volume['name']} is of type {', '.join(sorted(kinds))}"
    context = spec.get("securityContext", {})
    for field in ("sysctls", "seLinuxOptions", "windowsOptions", "appArmorProfile"):
        if field in context:
            yield f"securityContext.{field} is set"


def _of(container: Spec, spec: Spec) -> Iterator[str]:
    name = container["name"]
    own: Spec = container.get("securityContext", {})
    both: Spec = spec.get("securityContext", {}) | own
    if own.get("privileged"):
        yield f"{name} is privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{name} may escalate privileges"
    if both.get("runAsNonRoot") is not True:
        yield f"{name} may run as root"
    if both.get("runAsUser", 1) == 0:
        yield f"{name} runs as root"
    if both.get("seccompProfile", {}).get("type") not in SECCOMP:
        yield f"{name} has no seccomp profile"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", []):
        yield f"{name} keeps capabilities"
    if set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
        yield f"{name} adds capabilities"
    if own.get("procMount", "Default") != "Default":
        yield f"{name} has another procMount"
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield f"{name} has a host port"
