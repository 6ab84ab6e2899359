"""What pods say of themselves: asks their supervisors, never the API server.

A ready pod is asked once for each state that Kubernetes shows of it; one that is not ready is asked
each time, since only its supervisor knows how its engine fares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol

import aiohttp
from pydantic import ValidationError

from pumas_crds.facts import PodDescriptor
from pumas_crds.vocabulary import SUPERVISOR_PORT
from pumas_operator.json_object import Json, items, member, text
from pumas_operator.objects import uid_of
from pumas_operator.pod_template import SERVER
from pumas_operator.pod_truth import is_ready

ASK_SECONDS = 2.0
_MAX_BYTES = 1_048_576


class Supervisors(Protocol):
    """Whoever can ask a pod's supervisor."""

    async def describe(self, address: str) -> PodDescriptor | None:
        """What the pod at that address says; None when it does not answer as it should."""
        ...


class HttpSupervisors:
    """Asks `GET /descriptor`."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def describe(self, address: str) -> PodDescriptor | None:
        host = f"[{address}]" if ":" in address else address
        url = f"http://{host}:{SUPERVISOR_PORT}/descriptor"
        timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
        try:
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as answer:
                if answer.status != 200:
                    return None
                raw = bytearray()
                async for part in answer.content.iter_any():
                    raw += part
                    if len(raw) > _MAX_BYTES:
                        return None
                return PodDescriptor.model_validate_json(bytes(raw))
        except (aiohttp.ClientError, OSError, TimeoutError, ValidationError):
            # A pod that starts, stops or is not ours to reach: its Pod object says which.
            return None


class Describer:
    """Descriptors by pod uid; remembers those of ready pods."""

    def __init__(self, supervisors: Supervisors) -> None:
        self._supervisors = supervisors
        self._known: dict[str, tuple[str, PodDescriptor]] = {}

    async def describe(self, pods: Iterable[Json]) -> Mapping[str, PodDescriptor]:
        """What each of these pods says, of those that run and answer."""
        asked = [pod for pod in pods if is_running(pod)]
        told = await asyncio.gather(*map(self._one, asked))
        return {
            uid_of(pod): descriptor
            for pod, descriptor in zip(asked, told, strict=True)
            if descriptor is not None
        }

    async def busy(self, pods: Iterable[Json]) -> bool:
        """Whether any of these pods works on a call, or does not tell. Asks anew."""
        told = await asyncio.gather(
            *(self._supervisors.describe(text(member(pod, "status"), "podIP")) for pod in pods)
        )
        return any(descriptor is None or descriptor.busy > 0 for descriptor in told)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._known.pop(uid, None)

    async def _one(self, pod: Json) -> PodDescriptor | None:
        uid, version = uid_of(pod), text(member(pod, "metadata"), "resourceVersion")
        known = self._known.get(uid)
        if known is not None and known[0] == version:
            return known[1]
        told = await self._supervisors.describe(text(member(pod, "status"), "podIP"))
        if told is not None and told.runtime is not None and is_ready(pod):
            self._known[uid] = (version, told)
        return told


def is_running(pod: Json) -> bool:
    """Whether the pod's supervisor runs and has an address."""
    status = member(pod, "status")
    return bool(text(status, "podIP")) and any(
        text(container, "name") == SERVER and "running" in member(container, "state")
        for container in items(status, "containerStatuses")
    )
