"""Requests as values: what keeps each of them from doing more than it should."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumas_operator.kinds import DEPLOYMENT, EVENT, LEASE, SERVICE
from pumas_operator.requests import (
    Request,
    build_apply,
    build_claim,
    build_create,
    build_delete,
    build_event_write,
    build_get,
    build_lease_write,
    build_list,
    build_replicas,
    build_status_write,
    is_claimed,
)

WANTED: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "tiny", "namespace": "team"},
    "spec": {"ports": []},
}
POSTED = {"manager": "pumas-operator", "operation": "Update", "fieldsV1": {"f:spec": {}}}
OTHERS = [
    {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status"},
    {"manager": "pumas-operator", "operation": "Update", "subresource": "scale"},
    {"manager": "pumas-operator", "operation": "Apply"},
    {"manager": "kubectl", "operation": "Update"},
]


def test_a_body_is_json_and_none_is_none() -> None:
    assert build_get(SERVICE, "team", "tiny").payload() is None
    raw = build_create(SERVICE, WANTED).payload()
    assert raw is not None and json.loads(raw) == WANTED


def test_what_is_made_is_posted_to_its_collection() -> None:
    request = build_create(SERVICE, WANTED)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/team/services")
    assert request.query == {"fieldManager": "pumas-operator", "fieldValidation": "Strict"}


def test_what_is_applied_is_that_very_object() -> None:
    request = build_apply(SERVICE, WANTED, "uid-1")
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/team/services/tiny")
    assert request.content_type == "application/apply-patch+yaml"
    assert request.query["force"] == "true"
    assert request.body == {**WANTED, "metadata": {**WANTED["metadata"], "uid": "uid-1"}}
    assert "uid" not in WANTED["metadata"]


@pytest.mark.parametrize(
    ("proceed", "query"),
    [
        ("", {"limit": "100", "labelSelector": "a=b"}),
        ("next", {"limit": "100", "labelSelector": "a=b", "continue": "next"}),
    ],
)
def test_lists_come_in_pages(proceed: str, query: dict[str, str]) -> None:
    assert build_list("/api/v1/pods", "a=b", proceed) == Request("GET", "/api/v1/pods", query=query)
    assert "labelSelector" not in build_list("/api/v1/pods", "").query


def test_only_what_we_posted_waits_to_be_claimed() -> None:
    assert is_claimed({"metadata": {}})
    assert is_claimed({"metadata": {"managedFields": OTHERS}})
    assert not is_claimed({"metadata": {"managedFields": [*OTHERS, POSTED]}})


def test_a_claim_changes_our_entry_and_no_other() -> None:
    made: dict[str, Any] = {
        "metadata": {
            "name": "tiny",
            "namespace": "team",
            "resourceVersion": "7",
            "managedFields": [*OTHERS, POSTED],
        }
    }
    request = build_claim(SERVICE, made)
    assert request.content_type == "application/merge-patch+json"
    assert request.body == {
        "metadata": {
            "resourceVersion": "7",
            "managedFields": [*OTHERS, {**POSTED, "operation": "Apply"}],
        }
    }
    assert is_claimed(request.body)


def test_a_workload_shrinks_and_nothing_else_of_it_changes() -> None:
    request = build_replicas(DEPLOYMENT, "team", "tiny", "u", 0)
    assert request.body == {"metadata": {"uid": "u"}, "spec": {"replicas": 0}}


def test_only_that_very_object_is_deleted() -> None:
    request = build_delete(SERVICE, "team", "tiny", "u")
    assert request.body is not None
    assert request.body["preconditions"] == {"uid": "u"}
    assert request.body["propagationPolicy"] == "Background"


def test_a_status_is_that_of_the_model_as_it_was_read() -> None:
    metadata = {"name": "tiny", "namespace": "team", "uid": "u", "resourceVersion": "7"}
    request = build_status_write(metadata, {"loadState": "loaded"})
    assert request.path.endswith("/servedmodels/tiny/status")
    assert request.body is not None
    assert request.body["metadata"] == {
        "name": "tiny",
        "namespace": "team",
        "resourceVersion": "7",
    }
    assert request.body["status"] == {"loadState": "loaded"}


def test_a_lease_is_made_or_replaced() -> None:
    metadata = {"name": "pumas-operator", "namespace": "home"}
    made = build_lease_write({"metadata": metadata})
    assert (made.method, made.path) == ("POST", LEASE.path("home"))
    known = build_lease_write({"metadata": {**metadata, "resourceVersion": "3"}})
    assert (known.method, known.path) == ("PUT", LEASE.path("home", "pumas-operator"))


def test_an_event_is_posted_where_it_happened() -> None:
    request = build_event_write({"metadata": {"name": "e", "namespace": "team"}})
    assert (request.method, request.path) == ("POST", EVENT.path("team"))
