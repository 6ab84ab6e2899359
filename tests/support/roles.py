"""What the accounts of a release may do: the literal tables, and what a rendered chart grants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from support.helm import Object, Rendered

#: (API group, resource, verbs)
Grants: TypeAlias = set[tuple[str, str, str]]

READ = "list watch"
#: Created first, then applied; deleted when a model no longer needs it.
CHILD = "get list watch create patch delete"

OPERATOR: Grants = {
    ("serving.pumas.dev", "servedmodels", READ),
    ("serving.pumas.dev", "servedmodels/status", "patch"),
    # To put a model to rest that is loaded on demand, unless an autoscaler has it.
    ("serving.pumas.dev", "servedmodels/scale", "patch"),
    ("autoscaling", "horizontalpodautoscalers", "list"),
    ("apps", "deployments", CHILD),
    ("", "services", CHILD),
    ("networking.k8s.io", "networkpolicies", CHILD),
    ("policy", "poddisruptionbudgets", CHILD),
    # A Job's pods cannot be changed, so it is made anew.
    ("batch", "jobs", "get list watch create delete"),
    # By name only: the one that it is about to write.
    ("", "secrets", "get create patch"),
    ("", "pods", READ),
    # Listed where only they say why a Job makes no pods, or a pod does not start.
    ("", "events", "list create"),
}
OPERATOR_AT_HOME: Grants = {
    ("serving.pumas.dev", "servingprofiles", READ),
    # Its own is watched too: the pulse of its liveness. Those of demand go with their models.
    ("coordination.k8s.io", "leases", "get list watch create update delete"),
}
ROUTER: Grants = {
    ("serving.pumas.dev", "servedmodels", READ),
    # On the version that it has seen, and nothing else of a model.
    ("serving.pumas.dev", "servedmodels/scale", "patch"),
    ("discovery.k8s.io", "endpointslices", READ),
}
#: Demand: merged into what is there, or made.
ROUTER_AT_HOME: Grants = {("coordination.k8s.io", "leases", "create patch")}
#: Where models are managed by requests, it keeps the records of these beside it.
ROUTER_THAT_MANAGES: Grants = {
    ("coordination.k8s.io", "leases", "get list create update patch delete")
}
#: The Job that installs the chart's profiles: no other part of the release writes them.
PROFILES: Grants = {("serving.pumas.dev", "servingprofiles", "list create patch delete")}


def granted(objects: Sequence[Rendered]) -> dict[tuple[str, str], Grants]:
    """What each account may do, by (account, namespace); everywhere where that is empty."""
    roles = {
        (each.kind, each.namespace, each.name): set(_grants(each.object))
        for each in objects
        if each.kind in ("Role", "ClusterRole")
    }
    granted: dict[tuple[str, str], Grants] = {}
    for each in objects:
        if each.kind in ("RoleBinding", "ClusterRoleBinding"):
            role = each.object["roleRef"]
            key = (role["kind"], each.namespace, role["name"])
            for subject in each.object["subjects"]:
                holder = (subject["name"], each.namespace)
                granted[holder] = granted.get(holder, set()) | roles.pop(key)
    assert roles == {}, "roles that nobody has"
    return granted


def _grants(role: Object) -> Iterator[tuple[str, str, str]]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield group, resource, " ".join(rule["verbs"])
