"""Request records in a cluster: one Lease a key, in the router's own namespace.

A key is claimed by making its Lease, which the API server lets one alone do. What is changed or
deleted is that state of that Lease which was looked at, and no other: who was slower is refused,
looks again and judges again. A router that dies leaves its claim to its deadline, and no more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

from pumas_server.router.cluster_answers import (
    CONFLICT,
    MERGE_PATCH,
    NOT_FOUND,
    PLAIN,
    AnswerRefused,
    ApiObjects,
    Json,
    Unanswered,
    explain,
)
from pumas_server.router.leases import FIELD_MANAGER, collection, utc_now
from pumas_server.router.lmsp.judgement import expired, judge
from pumas_server.router.lmsp.request_lease import (
    SELECTOR,
    Version,
    build_answer,
    build_claim,
    build_precondition,
    build_takeover,
    lease_name,
    read_request,
    read_version,
)
from pumas_server.router.lmsp.request_records import (
    Claim,
    Claimed,
    RecordsUnavailable,
    StoredAnswer,
)

_log = logging.getLogger(__name__)

#: How often a claim looks again because others changed the record meanwhile.
_LOOKS = 5
_PAGE = "100"
_GONE = 410

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class LeaseRecords:
    """Implements `pumas_server.router.lmsp.request_records.RequestRecords`."""

    def __init__(
        self, api: ApiObjects, namespace: str, now: Callable[[], datetime] = utc_now
    ) -> None:
        """In that namespace, the router's own; the clock may differ a little from the others'."""
        self._api = api
        self._leases = collection(namespace)
        self._now = now

    async def claim(self, principal: str, key: str, fingerprint: str) -> Claim:
        """Claim a key for a request of that fingerprint. Raises `RecordsUnavailable`."""
        name, word = lease_name(principal, key), uuid4().hex
        for _ in range(_LOOKS):
            claim = build_claim(name, word, fingerprint, self._now())
            if made := await self._written("POST", self._leases, claim, name, word):
                return made
            found = await self._found(name)
            if found is None:
                continue
            judged = judge(read_request(found), fingerprint, self._now())
            if judged is not None:
                return judged
            taking = build_takeover(claim, _version(found))
            if made := await self._written("PUT", f"{self._leases}/{name}", taking, name, word):
                return made
        raise RecordsUnavailable("Too many requests with this key come at once.")

    async def store(self, claim: Claimed, answer: StoredAnswer) -> None:
        """Keep the answer. Raises `RecordsUnavailable`; the claim then ends at its deadline."""
        version = _version_of(claim)
        body = build_answer(version, answer, self._now())
        try:
            await self._send("PATCH", self._path(version), body, MERGE_PATCH)
        except AnswerRefused as error:
            if error.status in (CONFLICT, NOT_FOUND):
                raise RecordsUnavailable("The claim has passed its deadline.") from None
            raise RecordsUnavailable(_explain("PATCH", error)) from None
        except Unanswered as error:
            raise RecordsUnavailable(_explain("PATCH", error)) from None

    async def release(self, claim: Claimed) -> None:
        """Give the key back. Where that cannot be done the claim ends at its deadline."""
        try:
            await self._delete(_version_of(claim))
        except (AnswerRefused, Unanswered) as error:
            _log.warning("a key is not given back and ends by itself: %s", error)

    async def collect(self) -> None:
        """Delete what is nobody's any more. Several may do it at once. Raises `RecordsUnavailable`.

        What was looked at alone is deleted: who took a key over meanwhile keeps it.
        """
        query = {"labelSelector": SELECTOR, "limit": _PAGE}
        try:
            while True:
                page = await self._api.send("GET", self._leases, query=query)
                for lease in _items(page):
                    if expired(read_request(lease), self._now()) and (at := read_version(lease)):
                        await self._delete(at)
                proceed = _continue(page)
                if not proceed:
                    return
                query["continue"] = proceed
        except (AnswerRefused, Unanswered) as error:
            if isinstance(error, AnswerRefused) and error.status == _GONE:
                # The listing has grown too old to go on. What is left is there the next time.
                return
            raise RecordsUnavailable(explain(error, "list and delete its own leases")) from None

    async def _written(
        self, method: str, path: str, body: Json, name: str, word: str
    ) -> Claimed | None:
        """The claim, when it could be written; None when somebody else was faster."""
        try:
            return _claimed(await self._send(method, path, body), word)
        except AnswerRefused as error:
            if error.status == CONFLICT or (method, error.status) == ("PUT", NOT_FOUND):
                return None
            if not error.undecided:
                raise RecordsUnavailable(_explain(method, error)) from None
            failure: AnswerRefused | Unanswered = error
        except Unanswered as error:
            failure = error
        # Perhaps it was written. Only then does the token stand there.
        found = await self._found(name)
        record = None if found is None else read_request(found)
        if found is None or record is None or record.holder != word:
            raise RecordsUnavailable(_explain(method, failure))
        return _claimed(found, word)

    async def _found(self, name: str) -> Json | None:
        """The Lease of that name. None when there is none. Raises `RecordsUnavailable`."""
        try:
            return await self._api.send("GET", f"{self._leases}/{name}")
        except AnswerRefused as error:
            if error.status == NOT_FOUND:
                return None
            raise RecordsUnavailable(_explain("GET", error)) from None
        except Unanswered as error:
            raise RecordsUnavailable(_explain("GET", error)) from None

    async def _delete(self, version: Version) -> None:
        """Delete that state of it; another, or none, is left to whoever made it so."""
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": build_precondition(version),
        }
        try:
            await self._api.send("DELETE", self._path(version), body)
        except AnswerRefused as error:
            if error.status not in (CONFLICT, NOT_FOUND):
                raise

    async def _send(self, method: str, path: str, body: Json, content_type: str = PLAIN) -> Json:
        return await self._api.send(method, path, body, content_type, FIELD_MANAGER)

    def _path(self, version: Version) -> str:
        return f"{self._leases}/{version.name}"


def _claimed(lease: Json, word: str) -> Claimed:
    """The claim, with all that `store` and `release` need: nothing is kept of it here."""
    version = _version(lease)
    return Claimed(" ".join((version.name, version.uid, version.resource_version, word)))


def _version_of(claim: Claimed) -> Version:
    name, uid, resource_version, _ = claim.token.split(" ")
    return Version(name, uid, resource_version)


def _version(lease: Json) -> Version:
    version = read_version(lease)
    if version is None:
        raise RecordsUnavailable("What answers is not the Kubernetes API.")
    return version


def _items(page: Json) -> list[Json]:
    items = page.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _continue(page: Json) -> str:
    metadata = page.get("metadata")
    proceed = metadata.get("continue") if isinstance(metadata, dict) else None
    return proceed if isinstance(proceed, str) else ""


def _explain(method: str, error: AnswerRefused | Unanswered) -> str:
    return explain(error, f"{_VERBS[method]} leases in its own namespace")
