"""An API server in memory: the second implementation of `pumas_operator.cluster.Cluster`.

It knows what the operator relies on: names, uids, resource versions, 404 and 409, field ownership as
far as claiming goes, and server-side apply of whole fields. It can fail at any request, before or
after doing it, and tell what was asked of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pumas_operator.cluster import Refused, Unreachable
from pumas_operator.json_object import Json
from pumas_operator.kinds import (
    AUTOSCALER,
    CHILDREN,
    EVENT,
    JOB,
    LEASE,
    POD,
    SERVED_MODEL,
    SERVING_PROFILE,
    Kind,
)
from pumas_operator.requests import Request

KINDS = {
    kind.plural: kind
    for kind in (
        *CHILDREN.values(),
        *(JOB, POD, EVENT, LEASE, AUTOSCALER, SERVED_MODEL, SERVING_PROFILE),
    )
}


class Died(BaseException):
    """The operator's process was killed here."""


@dataclass
class FakeCluster:
    """Objects by kind and (namespace, name)."""

    objects: dict[Kind, dict[tuple[str, str], dict[str, Any]]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    refuse: Callable[[Request], Refused | None] = lambda request: None
    """What is refused, and how."""
    away: bool = False
    dies_before: int | None = None
    dies_after: int | None = None
    """The number of the request, from 0, at which the process is killed."""
    changed: Callable[[Kind, dict[str, Any]], None] = lambda kind, body: None
    """Told of each object after each change, as a watch would be."""
    gone: Callable[[Kind, dict[str, Any]], None] = lambda kind, body: None
    """Told of each that is deleted."""
    _version: int = 0

    async def send(self, request: Request) -> Json:
        """Do it, unless it is to fail here."""
        number = len(self.requests)
        self.requests.append(request)
        if number == self.dies_before:
            raise Died
        if self.away:
            raise Unreachable("away")
        refused = self.refuse(request)
        if refused is not None:
            raise refused
        answer = _copied(self._do(request))
        if number == self.dies_after:
            raise Died
        return answer

    @property
    def writes(self) -> list[str]:
        """Method and path of all that was not read."""
        return [f"{r.method} {r.path}" for r in self.requests if r.method != "GET"]

    def put(self, kind: Kind, body: dict[str, Any], **told: Any) -> dict[str, Any]:
        """Somebody else makes or replaces an object."""
        metadata = body["metadata"]
        metadata.setdefault("uid", f"uid-{kind.plural}-{metadata['name']}-{self._version}")
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", "2030-01-01T00:00:00Z")
        return self._store(kind, body | told)

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """One object that must be there."""
        return self.objects[kind][namespace, name]

    def named(self, kind: Kind) -> list[str]:
        """The names of all objects of a kind."""
        return sorted(name for _, name in self.objects.get(kind, {}))

    def drop(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """An object is deleted."""
        body = self.objects[kind].pop((namespace, name))
        self.gone(kind, _copied(body))
        return body

    def _do(self, request: Request) -> dict[str, Any]:
        kind, namespace, name, part = _address(request.path)
        held = self.objects.setdefault(kind, {})
        body: Any = json.loads(request.payload() or b"null")
        if not name and request.method == "GET":
            listed = [b for (ns, _), b in sorted(held.items()) if ns == namespace or not namespace]
            return {"items": listed, "metadata": {}}
        if request.method == "POST":
            key = (namespace, body["metadata"]["name"])
            if key in held:
                raise Refused(409, "AlreadyExists", f"{key[1]} already exists")
            self._own(body, request, "Update")
            return self.put(kind, body)
        if (namespace, name) not in held:
            raise Refused(404, "NotFound", f"{name} not found")
        found = held[namespace, name]
        if request.method == "GET":
            return found
        if request.method == "DELETE":
            wanted = (body or {}).get("preconditions", {}).get("uid", found["metadata"]["uid"])
            if wanted != found["metadata"]["uid"]:
                raise Refused(409, "Conflict", "another uid")
            return self.drop(kind, namespace, name)
        self._check(found, body, part)
        if request.method == "PUT":
            return self._store(kind, {**body, "metadata": found["metadata"] | body["metadata"]})
        if part == "status":
            return self._store(kind, found | {"status": body["status"]})
        if part == "scale":
            metadata = found["metadata"] | {"generation": found["metadata"]["generation"] + 1}
            return self._store(
                kind, found | {"metadata": metadata, "spec": found["spec"] | body["spec"]}
            )
        if "apply-patch" in request.content_type:
            merged = _applied(found, body)
            self._own(merged, request, "Apply")
        else:
            merged = _merged(found, body)
        return self._store(kind, merged)

    def _check(self, found: dict[str, Any], body: dict[str, Any], part: str) -> None:
        """As a real one was seen to: a status is written whatever uid is given with it."""
        held, asked = found["metadata"], body.get("metadata", {})
        if asked.get("resourceVersion", held.get("resourceVersion")) != held.get("resourceVersion"):
            raise Refused(409, "Conflict", "the object has been modified")
        if asked.get("uid", held["uid"]) != held["uid"] and part != "status":
            raise Refused(422, "Invalid", "metadata.uid: field is immutable")

    def _own(self, body: dict[str, Any], request: Request, operation: str) -> None:
        manager = request.query.get("fieldManager", "")
        entries = body["metadata"].setdefault("managedFields", [])
        entry = {"manager": manager, "operation": operation}
        if manager and entry not in entries:
            entries.append(entry)

    def _store(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        body = _copied(body)
        body["metadata"]["resourceVersion"] = str(self._version)
        body = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        self.objects.setdefault(kind, {})[
            body["metadata"].get("namespace", ""), body["metadata"]["name"]
        ] = body
        self.changed(kind, _copied(body))
        return body


def _copied(value: Any) -> Any:
    """As `copy.deepcopy`, of what JSON can hold, in a fraction of the time."""
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list | tuple) else value


def _address(path: str) -> tuple[Kind, str, str, str]:
    steps = path.strip("/").split("/")
    plural = next(at for at, step in enumerate(steps) if step in KINDS)
    namespace = steps[plural - 1] if steps[plural - 2] == "namespaces" else ""
    rest = [*steps[plural + 1 :], "", ""]
    return KINDS[steps[plural]], namespace, rest[0], rest[1]


def _merged(found: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(found) if isinstance(found, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = _merged(kept.get(name), value)
    return kept


def _applied(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Our fields as we want them, other people's labels kept; the rest of a spec is ours whole."""
    metadata = found["metadata"]
    ours = wanted["metadata"]
    for part in ("labels", "annotations"):
        metadata = metadata | {part: metadata.get(part, {}) | ours.get(part, {})}
    metadata = metadata | {"ownerReferences": ours.get("ownerReferences", [])}
    metadata = metadata | {"generation": metadata.get("generation", 1) + 1}
    return {**found, **wanted, "metadata": metadata}
