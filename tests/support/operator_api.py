"""The API server as a whole operator sees it, on a real socket.

Lists and watches are those of `ScriptedApiServer`; single objects are read and written in a
`FakeCluster`, whose every change the watches tell; and discovery says which kinds there are.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from aiohttp import web

from pumas_operator.cluster import Refused
from pumas_operator.intake import WATCHED
from pumas_operator.kinds import LEASE, Kind
from pumas_operator.requests import Request
from support.api_server import ScriptedApiServer
from support.fake_cluster import KINDS, FakeCluster

#: kopf does not begin before it has found these, though it is told to look at none.
_KOPFS = (
    Kind("v1", "Namespace", "namespaces"),
    Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
)
_HOME_KINDS = {LEASE} | {watched.kind for watched in WATCHED if watched.at_home}


class OperatorApi:
    """See the module."""

    def __init__(self) -> None:
        self.server = ScriptedApiServer(elsewhere=self._answer)
        self.cluster = FakeCluster(changed=self._changed, gone=self._gone)
        self._discovery = _build_discovery()

    @property
    def discovery(self) -> set[str]:
        """The paths of what tells which kinds there are."""
        return set(self._discovery)

    def asked(self, *methods: str) -> list[str]:
        """Paths of all requests of these methods, so far."""
        return [asked.path for asked in self.server.asked if asked.method in methods]

    async def _answer(self, request: web.Request) -> web.StreamResponse | None:
        if request.path in self._discovery:
            return web.json_response(self._discovery[request.path])
        if request.method == "GET" and request.path.rpartition("/")[2] in KINDS:
            return None
        raw = await request.read()
        asked = Request(
            request.method,
            request.path,
            json.loads(raw) if raw else None,
            request.content_type,
            dict(request.query),
        )
        try:
            return web.json_response(await self.cluster.send(asked))
        except Refused as error:
            told = {"kind": "Status", "reason": error.reason, "message": error.message}
            return web.json_response(told, status=error.status)

    def _changed(self, kind: Kind, body: dict[str, Any]) -> None:
        self.server.store.version = int(body["metadata"]["resourceVersion"]) - 1
        self.server.put(_collection(kind, body), body)

    def _gone(self, kind: Kind, body: dict[str, Any]) -> None:
        self.server.delete(_collection(kind, body), body)
        self.cluster._version = self.server.store.version


def _collection(kind: Kind, body: dict[str, Any]) -> str:
    """Where the operator looks for objects of the kind, when it serves all namespaces."""
    at_home = kind in _HOME_KINDS
    return kind.path(body["metadata"]["namespace"]) if at_home else kind.everywhere


def _build_discovery() -> dict[str, dict[str, Any]]:
    """The documents that tell which groups, versions and kinds there are."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    for kind in (*KINDS.values(), *_KOPFS):
        told = {"name": kind.plural, "kind": kind.name, "singularName": kind.name.lower()}
        namespaced = kind not in _KOPFS
        found[kind.api_version].append({**told, "namespaced": namespaced, "verbs": verbs})
    groups = []
    for version in found:
        group, _, name = version.rpartition("/")
        if group:
            only = {"groupVersion": version, "version": name}
            groups.append({"name": group, "versions": [only], "preferredVersion": only})
    root: dict[str, dict[str, Any]] = {
        "/api": {"versions": ["v1"]},
        "/apis": {"groups": groups},
    }
    return root | {Kind(v, "", "").root: {"resources": kinds} for v, kinds in found.items()}
