"""Objects as an API server keeps them: names, uids, versions, conflicts, preconditions, merges.

By the path of their collection. What a write comes to is a status and a body, as on the wire.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]


@dataclass
class ApiStore:
    """See the module."""

    version: int = 100
    """Grows with every change."""
    objects: dict[str, dict[str, Body]] = field(default_factory=dict)
    """Path of the collection, uid."""
    changed: Callable[[str, str, Body], None] = lambda path, kind, body: None
    """Told of each object after each change, as a watch would be."""
    made: int = 0

    def put(self, path: str, body: Body) -> Body:
        """Make or replace an object, whatever anybody has read."""
        body = deepcopy(body)
        known = self.objects.setdefault(path, {})
        uid = body["metadata"]["uid"]
        kind = "MODIFIED" if uid in known else "ADDED"
        known[uid] = body
        return self._happen(path, kind, body)

    def remove(self, path: str, uid: str) -> Body:
        """Remove an object, whatever anybody has read."""
        return self._happen(path, "DELETED", self.objects[path].pop(uid))

    def find(self, path: str, name: str) -> Body | None:
        """The object of a name."""
        found = self.objects.get(path, {}).values()
        return next((body for body in found if body["metadata"]["name"] == name), None)

    def listed(self, path: str, selector: str = "") -> list[Body]:
        """The objects of a collection; a selector is labels that are there, or equal a word."""
        wanted = [each.partition("=") for each in selector.split(",") if each]
        found = []
        for body in self.objects.get(path, {}).values():
            labels = body["metadata"].get("labels", {})
            if all(name in labels and (not eq or labels[name] == v) for name, eq, v in wanted):
                found.append(body)
        return found

    def do(self, method: str, path: str, raw: bytes, content_type: str) -> tuple[int, Body]:
        """A request of one object, or a POST to a collection."""
        collection, name, part = split_path(path)
        asked: Body = json.loads(raw) if raw else {}
        if method == "POST":
            return self._create(collection, asked)
        found = self.find(collection, name)
        if found is None:
            return _status(404, "NotFound")
        if method == "GET":
            return 200, deepcopy(found)
        if method == "DELETE":
            return self._delete(collection, found, asked.get("preconditions", {}))
        if _differs(found, asked.get("metadata", {})):
            return _status(409, "Conflict")
        if method == "PUT":
            assert "json" in content_type
            kept = {key: found["metadata"][key] for key in ("uid", "creationTimestamp")}
            return 200, self.put(collection, {**asked, "metadata": asked["metadata"] | kept})
        assert (method, content_type) == ("PATCH", "application/merge-patch+json")
        if part == "scale":
            assert asked.keys() == {"metadata", "spec"} and asked["spec"].keys() == {"replicas"}
            asked = {"spec": {"replicas": asked["spec"]["replicas"]}}
        merged = merge(found, asked)
        if merged == found:
            return 200, deepcopy(found)
        written = self.put(collection, merged)
        if part == "scale":
            metadata = {k: v for k, v in written["metadata"].items() if k != "labels"}
            return 200, {"kind": "Scale", "metadata": metadata, "spec": asked["spec"]}
        return 200, written

    def _create(self, collection: str, body: Body) -> tuple[int, Body]:
        metadata = body["metadata"]
        if "resourceVersion" in metadata or "uid" in metadata:
            return _status(400, "BadRequest")
        if self.find(collection, metadata["name"]) is not None:
            return _status(409, "AlreadyExists")
        self.made += 1
        born = {"uid": f"uid-{self.made}", "creationTimestamp": "2030-01-01T00:00:00Z"}
        return 201, self.put(collection, {**body, "metadata": metadata | born})

    def _delete(self, collection: str, found: Body, wanted: Body) -> tuple[int, Body]:
        if _differs(found, wanted):
            return _status(409, "Conflict")
        self.remove(collection, found["metadata"]["uid"])
        return 200, {"kind": "Status", "status": "Success"}

    def _happen(self, path: str, kind: str, body: Body) -> Body:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.changed(path, kind, body)
        return deepcopy(body)


def split_path(path: str) -> tuple[str, str, str]:
    """Path of the collection, name and subresource; the last two may be empty."""
    steps = path.split("/")
    if "namespaces" not in steps:
        return path, "", ""
    end = steps.index("namespaces") + 3
    name, part = [*steps[end:], "", ""][:2]
    return "/".join(steps[:end]), name, part


def merge(found: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(found) if isinstance(found, dict) else {}
    for name, value in patch.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = merge(kept.get(name), value)
    return kept


def _differs(found: Body, wanted: Body) -> bool:
    held = found["metadata"]
    return any(wanted.get(key, held[key]) != held[key] for key in ("uid", "resourceVersion"))


def _status(code: int, reason: str) -> tuple[int, Body]:
    return code, {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
