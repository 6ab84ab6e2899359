"""What the operator and the router may do, and with whom they may speak: literal tables."""

from __future__ import annotations

from typing import Any

import pytest

from support.helm import ALL_VALUES, of_kind, render
from support.roles import (
    OPERATOR,
    OPERATOR_AT_HOME,
    PROFILES,
    ROUTER,
    ROUTER_AT_HOME,
    ROUTER_THAT_MANAGES,
    granted,
)

SCOPED = ("--set", "watchNamespaces={team-a,team-b}")


def test_a_cluster_wide_install_grants_this_and_no_more() -> None:
    assert granted(render()) == {
        ("pumas-operator", ""): OPERATOR,
        ("pumas-operator", "pumas-system"): OPERATOR_AT_HOME,
        ("pumas-router", ""): ROUTER,
        ("pumas-router", "pumas-system"): ROUTER_AT_HOME,
        ("pumas-profiles", "pumas-system"): PROFILES,
    }


def test_a_namespaced_install_grants_the_same_there_only() -> None:
    objects = render(*SCOPED)
    assert granted(objects) == {
        ("pumas-operator", "team-a"): OPERATOR,
        ("pumas-operator", "team-b"): OPERATOR,
        ("pumas-operator", "pumas-system"): OPERATOR_AT_HOME,
        ("pumas-router", "team-a"): ROUTER,
        ("pumas-router", "team-b"): ROUTER,
        ("pumas-router", "pumas-system"): ROUTER_AT_HOME,
        ("pumas-profiles", "pumas-system"): PROFILES,
    }
    assert of_kind(objects, "ClusterRole") == of_kind(objects, "ClusterRoleBinding") == {}


def test_the_releases_own_namespace_can_be_served_too() -> None:
    told = granted(render("--set", "watchNamespaces={pumas-system}"))
    assert told == {
        ("pumas-operator", "pumas-system"): OPERATOR | OPERATOR_AT_HOME,
        ("pumas-router", "pumas-system"): ROUTER | ROUTER_AT_HOME,
        ("pumas-profiles", "pumas-system"): PROFILES,
    }


def test_a_router_that_manages_models_may_keep_records_at_home_and_no_more() -> None:
    plain, managing = granted(render()), granted(render("--set", "router.modelManagement=true"))
    assert managing == plain | {("pumas-router", "pumas-system"): ROUTER_THAT_MANAGES}


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
