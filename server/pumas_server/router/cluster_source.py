"""The ModelSource of a cluster: ServedModels and EndpointSlices, watched.

For each resource one follower lists, then watches from where the listing ended, and goes on from
the last version it saw when the server ends a watch. A version that is gone (410) means listing
anew. While the API server is away the last snapshot stays: models that serve go on being served.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

from pumas_crds.vocabulary import GROUP, PART_OF_LABEL, PART_OF_VALUE, VERSION
from pumas_server.router.cluster_records import build_records
from pumas_server.router.source import ModelRecord

_log = logging.getLogger(__name__)

#: The server ends a watch after this; a dead connection is noticed a little later.
WATCH_SECONDS = 240
_SILENCE_SECONDS = WATCH_SECONDS + 30
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
_PAGE = 500


@dataclass(frozen=True, slots=True)
class Resource:
    """What is listed and watched."""

    path: str
    """Of the collection, such as `/apis/discovery.k8s.io/v1/endpointslices`."""
    selector: str = ""


class Gone(Exception):
    """The API server no longer knows the version that we would go on from."""


@dataclass(slots=True)
class Follower:
    """One resource's objects by uid, kept true while `run` runs."""

    api: client.ApiClient
    resource: Resource
    changed: asyncio.Event
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    listed: bool = False

    async def run(self) -> None:
        """List and watch for ever. Whatever the API server does, what is known is kept."""
        pause = _FIRST_PAUSE_SECONDS
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._watch(version)
                pause = _FIRST_PAUSE_SECONDS
            except Gone:
                version = ""
            except (ApiException, aiohttp.ClientError, OSError, TimeoutError) as error:
                _log.warning("%s: %s; trying again", self.resource.path, _told(error))
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _list(self) -> str:
        """Replace all objects; the version to watch from."""
        found: dict[str, dict[str, Any]] = {}
        query: dict[str, str | int] = {"limit": _PAGE}
        while True:
            async with await self._get(query, 30) as answer:
                page = json.loads(await answer.read())
            found |= {item["metadata"]["uid"]: item for item in page.get("items") or ()}
            metadata = page.get("metadata", {})
            if not metadata.get("continue"):
                break
            query["continue"] = metadata["continue"]
        self.objects, self.listed = found, True
        self.changed.set()
        return str(metadata.get("resourceVersion", ""))

    async def _watch(self, version: str) -> str:
        """Apply events until the server ends the watch; the version to go on from."""
        query: dict[str, str | int] = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": WATCH_SECONDS,
        }
        async with await self._get(query, _SILENCE_SECONDS) as answer:
            async for line in _lines(answer):
                version = self._apply(json.loads(line)) or version
        return version

    def _apply(self, event: dict[str, Any]) -> str:
        """Take one event in; the version it brings."""
        item = event.get("object") or {}
        metadata = item.get("metadata") or {}
        match event.get("type"):
            case "ADDED" | "MODIFIED":
                self.objects[metadata["uid"]] = item
            case "DELETED":
                self.objects.pop(metadata["uid"], None)
            case "BOOKMARK":
                return str(metadata.get("resourceVersion", ""))
            case _:
                # An error event; 410 is the usual one, and for every other a listing mends it.
                raise Gone
        self.changed.set()
        return str(metadata.get("resourceVersion", ""))

    async def _get(self, query: dict[str, str | int], seconds: float) -> aiohttp.ClientResponse:
        if self.resource.selector:
            query = query | {"labelSelector": self.resource.selector}
        headers: dict[str, str] = {"Accept": "application/json"}
        # The library's own way of putting credentials in, fresh tokens included.
        await self.api.update_params_for_auth(headers, [], ["BearerToken"])
        answer = await self.api.rest_client.pool_manager.get(
            self.api.configuration.host + self.resource.path,
            params=query,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=seconds),
        )
        if answer.status == 410:
            answer.close()
            raise Gone
        if answer.status != 200:
            answer.close()
            raise ApiException(status=answer.status, reason=answer.reason)
        return answer


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Events, one a line, however long."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line


def _told(error: Exception) -> str:
    if isinstance(error, ApiException):
        return f"the API server answers {error.status}"
    return "the API server cannot be reached"


class ClusterSource:
    """Implements `pumas_server.router.source.ModelSource` over the Kubernetes API."""

    def __init__(self, api: client.ApiClient, namespaces: Sequence[str], secret: bytes) -> None:
        self._api = api
        self._namespaces = tuple(namespaces)
        self._secret = secret

    async def watch(self) -> AsyncIterator[tuple[ModelRecord, ...]]:
        """Yield the whole listing once both resources were listed, then after every change."""
        changed = asyncio.Event()
        models = self._followers(f"/apis/{GROUP}/{VERSION}", "servedmodels", "", changed)
        selector = f"{PART_OF_LABEL}={PART_OF_VALUE}"
        slices = self._followers(
            "/apis/discovery.k8s.io/v1", "endpointslices", selector, changed
        )
        everyone = (*models, *slices)
        tasks = [asyncio.create_task(follower.run()) for follower in everyone]
        try:
            while True:
                await changed.wait()
                changed.clear()
                if all(follower.listed for follower in everyone):
                    yield build_records(
                        [item for f in models for item in f.objects.values()],
                        [item for f in slices for item in f.objects.values()],
                        self._secret,
                    )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _followers(
        self, group: str, plural: str, selector: str, changed: asyncio.Event
    ) -> tuple[Follower, ...]:
        paths = [f"{group}/namespaces/{name}/{plural}" for name in self._namespaces]
        return tuple(
            Follower(self._api, Resource(path, selector), changed)
            for path in paths or [f"{group}/{plural}"]
        )
