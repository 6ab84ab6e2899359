"""Following one collection of the Kubernetes API: list it, then watch it from where that ended.

When the server ends a watch, the next goes on from the last version that was seen; a version that
the server no longer knows (410) means listing anew. Objects are replaced by a whole listing only,
so that none is missing meanwhile, and while the API server is away they stay as they are.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, TypeVar

import aiohttp
from kubernetes.aio.config import ConfigException

from pumas_server.router.cluster_access import ClusterAccess
from pumas_server.router.cluster_answers import AnswerRefused

_log = logging.getLogger(__name__)

Json = dict[str, Any]
T = TypeVar("T")

#: The server ends a watch after about this; the spread keeps routers from coming back together.
WATCH_SECONDS = 240.0
_SPREAD = 0.1
#: How much later a watch is given up that was not ended.
_GRACE_SECONDS = 30.0
_LIST_SILENCE_SECONDS = 30.0

#: A round of listing and watching that ended sooner is followed by a pause, which then grows.
_STEADY_SECONDS = 1.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0

_PAGE = "500"
#: The API server's own limit of one object is below 2 MiB.
_LONGEST_LINE_BYTES = 8_388_608

_GONE = 410
#: Refusals that say nothing against the version that was asked for.
_PASSING = frozenset({401, 403, 429})


class Gone(Exception):
    """The version that we would go on from is of no use; the collection is to be listed anew."""


class Garbled(Exception):
    """What came is not the Kubernetes API."""


@dataclass(slots=True)
class Follower(Generic[T]):
    """The objects of one collection by uid, kept true while `run` runs."""

    access: ClusterAccess
    path: str
    """Of the collection, such as `/apis/discovery.k8s.io/v1/endpointslices`."""
    selector: str
    """Of labels; empty: everything."""
    read: Callable[[Json], T]
    """What is kept of an object, read once for each of its states."""
    changed: Callable[[], None]
    """Called after every change of `objects`, and after a listing."""
    objects: dict[str, T] = field(default_factory=dict)
    listed: bool = False
    """Whether `objects` ever was a whole listing."""
    _version: str = ""
    """Up to which `objects` is true; empty: list first."""
    _told: str = ""
    """The trouble that the log knows of."""

    async def run(self) -> NoReturn:
        """List and watch for ever. Whatever the API server does, what is known is kept."""
        clock = asyncio.get_running_loop().time
        pause = _FIRST_PAUSE_SECONDS
        while True:
            began = clock()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except Gone:
                self._version = ""
            except Garbled as error:
                self._version = ""
                self._tell(str(error))
            except AnswerRefused as error:
                if error.status not in _PASSING and error.status < 500:
                    self._version = ""
                self._tell(str(error))
            except ConfigException:
                self._tell("the service account's token cannot be read")
            except TimeoutError:
                self._tell("the API server is silent")
            except (aiohttp.ClientError, OSError):
                self._tell("the API server cannot be reached")
            except Exception:
                # A fault of ours: a trace, and a fresh start instead of a view that goes stale.
                self._version = ""
                _log.exception("%s: following failed; starting anew", self.path)
            if clock() - began >= _STEADY_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause * random.uniform(0.5, 1))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _list(self) -> None:
        """Replace all objects at once, when the last page has come."""
        found: dict[str, T] = {}
        query = {"limit": _PAGE}
        while True:
            async with self._get(query, _LIST_SILENCE_SECONDS) as answer:
                page = _parsed(await answer.read())
            for item in _list_of(page, "items"):
                found[_text(item, "uid")] = self.read(item)
            metadata = _member(page, "metadata")
            if not metadata.get("continue"):
                break
            query["continue"] = str(metadata["continue"])
        self._version = _text(page, "resourceVersion")
        self.objects, self.listed = found, True
        self._tell("")
        self.changed()

    async def _watch(self) -> None:
        """Apply events until the server ends the watch."""
        seconds = WATCH_SECONDS * random.uniform(1 - _SPREAD, 1 + _SPREAD)
        query = {
            "watch": "true",
            "resourceVersion": self._version,
            # Else the last version of a quiet collection grows so old that a listing is needed.
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        async with self._get(query, seconds + _GRACE_SECONDS) as answer:
            async for line in _lines(answer):
                self._apply(_parsed(line))
                self._tell("")

    def _apply(self, event: Json) -> None:
        """Take one event in."""
        item = _member(event, "object")
        match event.get("type"):
            case "ADDED" | "MODIFIED":
                self.objects[_text(item, "uid")] = self.read(item)
                self.changed()
            case "DELETED":
                self.objects.pop(_text(item, "uid"), None)
                self.changed()
            case "BOOKMARK":
                pass
            case "ERROR":
                # 410 is the usual one, and a listing mends every other.
                raise Gone
            case _:
                raise Garbled("a watch brings events of an unknown type")
        self._version = _text(item, "resourceVersion")

    @asynccontextmanager
    async def _get(
        self, query: dict[str, str], silence_seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self.selector:
            query = query | {"labelSelector": self.selector}
        try:
            async with self.access.get(self.path, query, silence_seconds) as answer:
                yield answer
        except AnswerRefused as refused:
            if refused.status == _GONE:
                raise Gone from None
            raise

    def _tell(self, trouble: str) -> None:
        """Log the beginning, a change and the end of trouble, not every attempt. Empty: none."""
        if trouble != self._told:
            self._told = trouble
            _log.warning("%s: %s", self.path, f"{trouble}; trying again" if trouble else "goes on")


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Events, one a line. A line without its end, as a cut leaves it, comes again."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > _LONGEST_LINE_BYTES:
            raise Garbled("a watch brings a line that does not end")


def _parsed(raw: bytes) -> Json:
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        raise Garbled("what answers is not the Kubernetes API") from None
    if not isinstance(value, dict):
        raise Garbled("what answers is not the Kubernetes API")
    return value


def _list_of(page: Json, name: str) -> list[Json]:
    items = page.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Garbled(f"a listing's `{name}` is no list of objects")
    return items


def _member(body: Json, name: str) -> Json:
    value = body.get(name)
    if not isinstance(value, dict):
        raise Garbled(f"an answer lacks `{name}`")
    return value


def _text(item: Json, name: str) -> str:
    """A member of the metadata that every object has."""
    value = _member(item, "metadata").get(name)
    if not isinstance(value, str) or not value:
        raise Garbled(f"an object lacks `metadata.{name}`")
    return value
