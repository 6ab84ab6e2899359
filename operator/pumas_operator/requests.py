"""What the operator asks of the API server, as values. Pure.

A child comes to be by POST, so that an object which has its name is never touched, and what was
posted is claimed at once: its fields are marked as applied ones. From then on server-side apply
does the rest; fields that we no longer want go, and what others wrote beside ours stays. Without
the claim the posted fields would belong to an "update" of ours for ever, and never go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pumas_operator.json_object import Json, items, member, text
from pumas_operator.kinds import EVENT, LEASE, SERVED_MODEL, Kind
from pumas_operator.labels import Object

FIELD_MANAGER = "pumas-operator"

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the Kubernetes API."""

    method: str
    path: str
    body: Object | None = None
    content_type: str = _JSON
    query: Mapping[str, str] = field(default_factory=dict)

    def payload(self) -> bytes | None:
        """The body's bytes. JSON is YAML, which server-side apply asks for."""
        return None if self.body is None else json.dumps(self.body).encode()


def build_get(kind: Kind, namespace: str, name: str) -> Request:
    """Read one object."""
    return Request("GET", kind.path(namespace, name))


def build_list(path: str, selector: str, proceed: str = "") -> Request:
    """Read a page of a collection; `proceed` is the previous page's word for the next."""
    query = {"limit": "100", "labelSelector": selector, "continue": proceed}
    return Request("GET", path, query={name: value for name, value in query.items() if value})


def build_create(kind: Kind, desired: Object) -> Request:
    """Make an object; refused with 409 when there is one of its name."""
    return Request(
        "POST",
        kind.path(text(member(desired, "metadata"), "namespace")),
        desired,
        query={"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"},
    )


def is_claimed(body: Json) -> bool:
    """Whether nothing that we posted waits to be claimed."""
    return not any(map(_posted, items(member(body, "metadata"), "managedFields")))


def build_claim(kind: Kind, made: Json) -> Request:
    """Mark as applied what we posted; refused with 409 when the object has changed since."""
    metadata = member(made, "metadata")
    claimed = [
        {**entry, "operation": "Apply"} if _posted(entry) else dict(entry)
        for entry in items(metadata, "managedFields")
    ]
    told: Object = {
        "resourceVersion": text(metadata, "resourceVersion"),
        "managedFields": claimed,
    }
    return Request(
        "PATCH",
        kind.path(text(metadata, "namespace"), text(metadata, "name")),
        {"metadata": told},
        _MERGE,
        {"fieldManager": FIELD_MANAGER},
    )


def _posted(entry: Json) -> bool:
    return (
        text(entry, "manager") == FIELD_MANAGER
        and text(entry, "operation") == "Update"
        and not text(entry, "subresource")
    )


def build_apply(kind: Kind, desired: Object, uid: str) -> Request:
    """Make our fields of that very object so, over whoever else wrote them.

    Refused when another has its name by now, or none: without the uid a stranger's object would be
    written over, and a missing one made.
    """
    metadata = member(desired, "metadata")
    return Request(
        "PATCH",
        kind.path(text(metadata, "namespace"), text(metadata, "name")),
        {**desired, "metadata": {**metadata, "uid": uid}},
        _APPLY,
        {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"},
    )


def build_replicas(kind: Kind, namespace: str, name: str, uid: str, replicas: int) -> Request:
    """Change nothing but how many pods a workload has."""
    body: Object = {"metadata": {"uid": uid}, "spec": {"replicas": replicas}}
    query = {"fieldManager": FIELD_MANAGER}
    return Request("PATCH", kind.path(namespace, name), body, _MERGE, query)


def build_rest(metadata: Json) -> Request:
    """Have no pods wanted of the model as it was read; refused with 409 when it has changed since.

    Where everybody else changes it, in the scale subresource: no other field of the spec is ours.
    """
    namespace, name = text(metadata, "namespace"), text(metadata, "name")
    version = text(metadata, "resourceVersion")
    body: Object = {"metadata": {"resourceVersion": version}, "spec": {"replicas": 0}}
    path = SERVED_MODEL.path(namespace, name, "scale")
    return Request("PATCH", path, body, _MERGE, {"fieldManager": FIELD_MANAGER})


def build_delete(kind: Kind, namespace: str, name: str, uid: str) -> Request:
    """Delete that very object, and what it owns after it."""
    body: Object = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
    return Request("DELETE", kind.path(namespace, name), body)


def build_status_write(metadata: Json, status: Object) -> Request:
    """Replace the status of the model as it was read.

    Refused with 409 when the model has changed since, or was made anew under its name. Its version
    tells that and not its uid, which the API server does not look at in a status.
    """
    namespace, name = text(metadata, "namespace"), text(metadata, "name")
    version = text(metadata, "resourceVersion")
    body: Object = {
        "apiVersion": SERVED_MODEL.api_version,
        "kind": SERVED_MODEL.name,
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": version},
        "status": status,
    }
    return Request(
        "PATCH",
        SERVED_MODEL.path(namespace, name, "status"),
        body,
        _APPLY,
        {"fieldManager": FIELD_MANAGER, "force": "true"},
    )


def build_event_write(event: Object) -> Request:
    """Record an event; its name is made from what happened, so that it is recorded once."""
    return Request("POST", EVENT.path(text(member(event, "metadata"), "namespace")), event)


def build_lease_write(lease: Object) -> Request:
    """Make or replace a Lease; refused with 409 when somebody else was faster."""
    metadata = member(lease, "metadata")
    namespace, name = text(metadata, "namespace"), text(metadata, "name")
    if text(metadata, "resourceVersion"):
        return Request("PUT", LEASE.path(namespace, name), lease)
    return Request("POST", LEASE.path(namespace), lease)
