"""What the operator and the router may do, and with whom they may speak: literal tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pytest

from support.helm import ALL_VALUES, Object, Rendered, of_kind, render

#: (API group, resource, verbs)
Grants: TypeAlias = set[tuple[str, str, str]]

READ = "list watch"
#: Created first, then applied; deleted when a model no longer needs it.
CHILD = "get list watch create patch delete"

OPERATOR: Grants = {
    ("serving.pumas.dev", "servedmodels", READ),
    ("serving.pumas.dev", "servedmodels/status", "patch"),
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
    # Its own is watched too: the pulse of its liveness.
    ("coordination.k8s.io", "leases", "get list watch create update"),
}
ROUTER: Grants = {
    ("serving.pumas.dev", "servedmodels", READ),
    ("discovery.k8s.io", "endpointslices", READ),
}
#: The Job that installs the chart's profiles: no other part of the release writes them.
PROFILES: Grants = {("serving.pumas.dev", "servingprofiles", "list create patch delete")}

SCOPED = ("--set", "watchNamespaces={team-a,team-b}")


def test_a_cluster_wide_install_grants_this_and_no_more() -> None:
    assert _granted(render()) == {
        ("pumas-operator", ""): OPERATOR,
        ("pumas-operator", "pumas-system"): OPERATOR_AT_HOME,
        ("pumas-router", ""): ROUTER,
        ("pumas-profiles", "pumas-system"): PROFILES,
    }


def test_a_namespaced_install_grants_the_same_there_only() -> None:
    objects = render(*SCOPED)
    assert _granted(objects) == {
        ("pumas-operator", "team-a"): OPERATOR,
        ("pumas-operator", "team-b"): OPERATOR,
        ("pumas-operator", "pumas-system"): OPERATOR_AT_HOME,
        ("pumas-router", "team-a"): ROUTER,
        ("pumas-router", "team-b"): ROUTER,
        ("pumas-profiles", "pumas-system"): PROFILES,
    }
    assert of_kind(objects, "ClusterRole") == of_kind(objects, "ClusterRoleBinding") == {}


def test_the_releases_own_namespace_can_be_served_too() -> None:
    granted = _granted(render("--set", "watchNamespaces={pumas-system}"))
    assert granted == {
        ("pumas-operator", "pumas-system"): OPERATOR | OPERATOR_AT_HOME,
        ("pumas-router", "pumas-system"): ROUTER,
        ("pumas-profiles", "pumas-system"): PROFILES,
    }


@pytest.mark.parametrize("arguments", [(), SCOPED, ("-f", str(ALL_VALUES))])
def test_nothing_is_granted_by_wildcard(arguments: tuple[str, ...]) -> None:
    for each in render(*arguments):
        for rule in each.object.get("rules", []):
            assert rule.keys() == {"apiGroups", "resources", "verbs"}, each
            assert not any("*" in value for values in rule.values() for value in values), each


def test_who_may_speak_with_whom() -> None:
    policies = of_kind(render(), "NetworkPolicy")
    api = {("", 443), ("", 6443)}
    names = {("", 53)}
    workers = "pumas-operator's pods"
    assert {name: _reach(policy) for name, policy in policies.items()} == {
        "pumas-operator": names | api | {(workers, 8081)},
        "pumas-router": names | api | {("", 80)} | {(workers, 8080), (workers, 8081)},
        "pumas-profiles": names | api,
    }
    for policy in policies.values():
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_callers_can_be_limited() -> None:
    arguments = ("-f", str(ALL_VALUES), "--set", "networkPolicy.enabled=true")
    router = of_kind(render(*arguments), "NetworkPolicy")["ours-router"]["spec"]
    [ingress] = router["ingress"]
    assert [sorted(each) for each in ingress["from"]] == [
        ["namespaceSelector", "podSelector"],
        ["ipBlock"],
    ]
    assert {port for _, port in _reach({"spec": router})} == {53, 16443, 8000, 8080, 8081}


def _granted(objects: Sequence[Rendered]) -> dict[tuple[str, str], Grants]:
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


def _reach(policy: dict[str, Any]) -> set[tuple[str, int]]:
    """(to whom, port) of all that may be called; anybody where that is empty."""
    found = set()
    for rule in policy["spec"]["egress"]:
        to = ""
        if "to" in rule:
            [peer] = rule["to"]
            assert peer["namespaceSelector"] == {}
            assert peer["podSelector"]["matchLabels"] == {
                "app.kubernetes.io/part-of": "pumas-serving",
                "app.kubernetes.io/managed-by": "pumas-operator",
            }
            to = "pumas-operator's pods"
        found |= {(to, port["port"]) for port in rule["ports"]}
    return found
