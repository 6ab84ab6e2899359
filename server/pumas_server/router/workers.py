"""Workers: keeps the catalogue true, by following the source and asking the endpoints.

One task follows the source; one task an endpoint asks it what it is: a serving pod for its
`/descriptor`, an external server for its `/v1/models`, by GET only. At once, then often until the
first answer, then now and then, and whenever something happened that may have changed it. A pod
that could not be connected to is ejected until it says that it is ready. The catalogue is rebuilt
whole from all that is known, and swapped.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp
from pydantic import ValidationError

from pumas_crds.facts import PodDescriptor
from pumas_server.router.background import start
from pumas_server.router.catalog import Catalog, build_catalog
from pumas_server.router.ejection import Ejections
from pumas_server.router.observations import (
    Observation,
    ObservationKey,
    key_of,
    observe_external,
    observe_pod,
    unready,
)
from pumas_server.router.settings import RouterSettings
from pumas_server.router.silence import explain_silence
from pumas_server.router.source import Endpoint, ModelRecord, ModelSource

_log = logging.getLogger(__name__)

STARTING_POD_SECONDS = 0.1
FIRST_ANSWER_SECONDS = 2.0
POD_SECONDS = 5.0
EXTERNAL_SECONDS = 10.0
_ASK_SECONDS = 2.0
_MAX_ANSWER_BYTES = 4_194_304

#: What asking may end with instead of an answer. RecursionError: JSON that nests too deep.
_SILENCE = (
    aiohttp.ClientError,
    OSError,
    TimeoutError,
    ValidationError,
    ValueError,
    RecursionError,
)


@dataclass(slots=True)
class _Watched:
    """One endpoint that is being asked."""

    record: ModelRecord
    endpoint: Endpoint
    poke: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class Workers:
    """The one writer of the catalogue."""

    def __init__(self, source: ModelSource, settings: RouterSettings) -> None:
        self._source = source
        self._settings = settings
        self._records: tuple[ModelRecord, ...] = ()
        self._watched: dict[ObservationKey, _Watched] = {}
        self._observations: dict[ObservationKey, Observation] = {}
        self._client: aiohttp.ClientSession | None = None
        self._ejections = Ejections(self._is_ready, self._rebuild)
        self._swapped = asyncio.Event()
        self._removed: Callable[[str], None] = lambda model_uid: None
        self.catalog = Catalog(())
        self.listed = False
        """Whether the source ever told which models there are. An empty listing is one too."""

    @asynccontextmanager
    async def run(self, removed: Callable[[str], None]) -> AsyncIterator[None]:
        """Follow the source while the block lasts; `removed` is told uids of models that went."""
        self._removed = removed
        timeout = aiohttp.ClientTimeout(total=_ASK_SECONDS)
        async with aiohttp.ClientSession(
            timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        ) as client:
            self._client = client
            follow = start(self._follow(client), "follow-source")
            try:
                yield
            finally:
                tasks = [follow, *(w.task for w in self._watched.values() if w.task)]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._ejections.close()

    @property
    def records(self) -> tuple[ModelRecord, ...]:
        """The newest listing of the source; the same tuple until the next one."""
        return self._records

    async def until(self, holds: Callable[[Catalog], bool]) -> Catalog:
        """The first catalogue of which `holds` is true."""
        while not holds(self.catalog):
            await self._swapped.wait()
        return self.catalog

    async def changed(self, seen: Catalog, seconds: float | None) -> None:
        """Return when there is another catalogue than that, or after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.until(lambda catalog: catalog is not seen)

    def unreachable(self, endpoint: Endpoint) -> None:
        """Connecting to an endpoint failed. One of ours is out of the choice when this returns,
        until its `/readyz` says yes; an `external` server, which has none, is asked what it is."""
        for key, watched in self._watched.items():
            if watched.endpoint.url == endpoint.url:
                watched.poke.set()
                if endpoint.supervisor_url is not None:
                    self._ejections.eject(key, watched.endpoint)
        if endpoint.supervisor_url is not None:
            self._rebuild()

    async def _follow(self, client: aiohttp.ClientSession) -> None:
        async for records in self._source.watch():
            before = {record.model.metadata.uid for record in self._records}
            self._records, self.listed = records, True
            self._watch_endpoints(client)
            self._rebuild()
            for uid in before - {record.model.metadata.uid for record in records}:
                self._removed(uid)

    def _watch_endpoints(self, client: aiohttp.ClientSession) -> None:
        current = {key_of(r, e): (r, e) for r in self._records for e in r.endpoints}
        for key in self._watched.keys() - current.keys():
            gone = self._watched.pop(key)
            self._observations.pop(key, None)
            self._ejections.forget(key)
            if gone.task is not None:
                gone.task.cancel()
        for key, (record, endpoint) in current.items():
            watched = self._watched.get(key)
            if watched is None:
                watched = self._watched[key] = _Watched(record, endpoint)
                watched.task = start(
                    self._keep_asking(client, key, watched), f"ask-{record.model.alias}"
                )
            else:
                respecified = watched.record.spec_hash != record.spec_hash
                if respecified and endpoint.supervisor_url is None:
                    # What it said was read for another task and another name.
                    self._observations.pop(key, None)
                if respecified or watched.endpoint != endpoint:
                    watched.poke.set()
                watched.record, watched.endpoint = record, endpoint

    async def _keep_asking(
        self, client: aiohttp.ClientSession, key: ObservationKey, watched: _Watched
    ) -> None:
        while True:
            watched.poke.clear()
            asked_for = watched.record.spec_hash
            said = await self._ask(client, watched)
            if watched.record.spec_hash != asked_for:
                continue
            if said is not None and said != self._observations.get(key):
                self._observations[key] = said
                self._rebuild()
            pause = _pause(watched.endpoint, self._observations.get(key))
            try:
                await asyncio.wait_for(watched.poke.wait(), pause)
            except TimeoutError:
                continue

    async def _ask(self, client: aiohttp.ClientSession, watched: _Watched) -> Observation | None:
        """What the endpoint says; None when a pod of ours is silent (its readiness then tells)."""
        endpoint, record = watched.endpoint, watched.record
        try:
            if endpoint.supervisor_url is not None:
                raw = await _get(client, f"{endpoint.supervisor_url}/descriptor", endpoint)
                return observe_pod(PodDescriptor.model_validate_json(raw))
            raw = await _get(client, f"{endpoint.url}/v1/models", endpoint)
            spec = record.model.spec
            model = (spec.endpoint.model if spec.endpoint else None) or record.model.alias
            return observe_external(json.loads(raw), model, spec.task)
        except _SILENCE as error:
            _log.debug("%s does not tell what it is: %s", record.model.alias, type(error).__name__)
            if endpoint.supervisor_url is not None:
                return None
            return Observation(problem=explain_silence(error))

    async def _is_ready(self, endpoint: Endpoint) -> bool:
        """Whether a pod of ours says that it is ready. Asked before every return of it."""
        if self._client is None:
            return False
        try:
            await _get(self._client, f"{endpoint.supervisor_url}/readyz", endpoint)
        except _SILENCE:
            return False
        return True

    def _rebuild(self) -> None:
        said = {
            key: unready(said) if key in self._ejections else said
            for key, said in self._observations.items()
        }
        limit, managed = self._settings.external_in_flight, self._settings.model_management
        self.catalog = build_catalog(self._records, said, limit, self.catalog, managed=managed)
        swapped, self._swapped = self._swapped, asyncio.Event()
        swapped.set()


def _pause(endpoint: Endpoint, said: Observation | None) -> float:
    """How long to wait before asking again."""
    if endpoint.supervisor_url is not None:
        return POD_SECONDS if said is not None and said.facts.ready else STARTING_POD_SECONDS
    return EXTERNAL_SECONDS if said is not None and said.facts.ready else FIRST_ANSWER_SECONDS


async def _get(client: aiohttp.ClientSession, url: str, endpoint: Endpoint) -> bytes:
    headers = {"Authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    async with client.get(url, headers=headers, allow_redirects=False) as answer:
        if answer.status != 200:
            raise aiohttp.ClientResponseError(
                answer.request_info, (), status=answer.status, message="not 200"
            )
        body = bytearray()
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > _MAX_ANSWER_BYTES:
                raise ValueError("the answer is too long")
        return bytes(body)
