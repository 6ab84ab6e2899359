"""A router's way to the API server in memory: single requests, listings and watches.

Stands in for `ClusterAccess`: what the followers read comes as bytes, line by line, as from a socket.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from pumas_operator.cluster import Refused, Unreachable
from pumas_operator.kinds import SERVED_MODEL, Kind
from pumas_operator.requests import Request
from pumas_server.router.cluster_answers import PLAIN, AnswerRefused, Json, Unanswered
from support.shared_api import SLICE, Change, SharedApi, Way

_FOLLOWED = {kind.plural: kind for kind in (SERVED_MODEL, SLICE)}


@dataclass
class RouterWay:
    """Implements `ApiObjects`, and of `ClusterAccess` what a follower asks."""

    api: SharedApi
    who: str
    stalled: set[Kind] = field(default_factory=set)
    """Of these nothing comes any more, and nobody says so."""
    way: Way = field(init=False)
    relistings: int = 0
    rewinds: int = 0
    """So many events are told once more when watches begin next."""
    _breaks: int = 0

    def __post_init__(self) -> None:
        self.way = Way(self.api, self.who)

    async def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        content_type: str = PLAIN,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """One request."""
        asked = Request(
            method, path, None if body is None else dict(body), content_type, query or {}
        )
        try:
            return await self.way.send(asked)
        except Refused as error:
            raise AnswerRefused(error.status, error.reason) from None
        except Unreachable as error:
            raise Unanswered(str(error)) from None

    def break_watches(self, rewinds: int = 0) -> None:
        """Connections end; the router comes again, and may be told so many old events anew."""
        self._breaks += 1
        self.rewinds = rewinds
        self.stalled.clear()
        self.api.wake()

    @asynccontextmanager
    async def get(
        self, path: str, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncIterator[Answer]:
        """A listing or a watch."""
        await asyncio.sleep(0)
        if self.api.away:
            raise aiohttp.ClientConnectionError
        kind = _FOLLOWED[path.rpartition("/")[2]]
        if "watch" not in query:
            self.relistings += 1
            yield Answer(self, kind, -1, silence_seconds)
            return
        since = int(query["resourceVersion"])
        if since < self.api.forgotten:
            raise AnswerRefused(410)
        yield Answer(self, kind, since, silence_seconds)

    def broken(self, breaks: int) -> bool:
        """Whether a watch that began then has been broken."""
        return self.api.away or self._breaks > breaks

    @property
    def breaks(self) -> int:
        """How often watches were broken."""
        return self._breaks


class Answer:
    """A body, whole or in lines. Stands in for `aiohttp.ClientResponse` and its `content`."""

    def __init__(self, way: RouterWay, kind: Kind, since: int, silence: float) -> None:
        self._way, self._kind, self._since, self._silence = way, kind, since, silence
        self.content = self

    async def read(self) -> bytes:
        """The listing."""
        api = self._way.api
        page = {
            "metadata": {"resourceVersion": str(max(api.version, 1))},
            "items": api.all(self._kind),
        }
        return json.dumps(page).encode()

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Events from `since` on, until the watch breaks or is silent for too long."""
        way, api, breaks = self._way, self._way.api, self._way.breaks
        history = api.history[self._kind]
        at = len(history)
        while at > 0 and history[at - 1].version > self._since:
            at -= 1
        at = max(0, at - way.rewinds)
        while not way.broken(breaks):
            if at < len(history) and self._kind not in way.stalled:
                yield _line(history[at])
                at += 1
                continue
            moved = api.moved
            async with asyncio.timeout(self._silence):
                await moved.wait()
        raise aiohttp.ClientPayloadError


def _line(change: Change) -> bytes:
    return json.dumps({"type": change.type, "object": change.body}).encode() + b"\n"
