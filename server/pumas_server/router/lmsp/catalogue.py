"""The catalogue as bytes: rendered when models change, not when somebody asks. Pure.

A listing of a thousand models is asked for often and changes seldom. A model is rendered again when
its own record changed, the listing when any did, each at the first request after it. Only the very
first listing, in which all models are new, is rendered ahead, a slice at a time.

`catalog_revision` is a digest of what all models' objects say: equal on every router and across
restarts, and in every filtered list of one state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from pumas_server.router.catalog import lost
from pumas_server.router.lmsp.model_object import READY, ModelObject, build_model_object
from pumas_server.router.lmsp.problems import canonical
from pumas_server.router.lmsp.query import CAPABILITIES, Selection
from pumas_server.router.lmsp.validators import etag_of
from pumas_server.router.source import ModelRecord

_REVISION_DIGITS = 16
#: Models that are rendered at a time ahead of requests: a few milliseconds.
_SLICE = 50


@dataclass(frozen=True, slots=True)
class Representation:
    """The body of an answer and its tag."""

    body: bytes
    etag: str


class Entry:
    """One model as it is listed."""

    def __init__(self, record: ModelRecord, pages: str) -> None:
        self.record = record
        self.id = record.model.catalogue_id
        """The list is sorted by it."""
        self.object: ModelObject = build_model_object(record, pages)
        self.body = canonical(self.object).encode()
        flags = self.object["capabilities"]
        self._flags = frozenset(name for name in CAPABILITIES if flags[name])

    @cached_property
    def representation(self) -> Representation:
        """The model on its own."""
        return Representation(self.body, etag_of(self.body))

    def matches(self, selection: Selection) -> bool:
        """Whether a filter lets it through."""
        if selection.nothing or not selection.capabilities <= self._flags:
            return False
        return not selection.ready_only or self.object["status"] == READY


class Listing:
    """All models at one time."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.id: entry for entry in sorted(entries, key=lambda e: e.id)}
        self._lists: dict[Selection, Representation] = {}

    def find(self, model_id: str) -> Entry | None:
        """The model of this very id."""
        return self._entries.get(model_id)

    @cached_property
    def revision(self) -> str:
        """The `catalog_revision`."""
        return sha256(self._join(self._entries.values())).hexdigest()[:_REVISION_DIGITS]

    def select(self, selection: Selection) -> Representation:
        """The list of the models that a filter lets through."""
        known = self._lists.get(selection)
        if known is None:
            chosen = [entry for entry in self._entries.values() if entry.matches(selection)]
            known = self._lists[selection] = self._render(chosen)
        return known

    def _render(self, chosen: Iterable[Entry]) -> Representation:
        head = f'{{"object":"list","catalog_revision":"{self.revision}","data":'
        body = head.encode() + self._join(chosen) + b"}"
        return Representation(body, etag_of(body))

    @staticmethod
    def _join(entries: Iterable[Entry]) -> bytes:
        return b"[" + b",".join(entry.body for entry in entries) + b"]"


class Catalogue:
    """Keeps the listing of the newest records."""

    def __init__(self, pages: str) -> None:
        self._pages = pages
        self._records: tuple[ModelRecord, ...] = ()
        self._entries: dict[str, Entry] = {}
        self._listing = Listing(())

    def listing(self, records: tuple[ModelRecord, ...]) -> Listing:
        """The listing of these records; the same one as long as they are the same tuple."""
        if records is not self._records:
            self._entries = {name: self._entry(name, r) for name, r in _listed(records).items()}
            self._listing = Listing(self._entries.values())
            self._records = records
        return self._listing

    def render(self, records: tuple[ModelRecord, ...]) -> Iterator[None]:
        """Render these models, a slice at each step. Whoever asks meanwhile renders the others."""
        for done, (model_id, record) in enumerate(_listed(records).items()):
            if done % _SLICE == 0:
                yield
            self._entries[model_id] = self._entry(model_id, record)

    def _entry(self, model_id: str, record: ModelRecord) -> Entry:
        known = self._entries.get(model_id)
        # Cheap for a model that did not change: its parts are the same objects then.
        if known is not None and known.record == record:
            return known
        return Entry(record, self._pages)


def _listed(records: Iterable[ModelRecord]) -> dict[str, ModelRecord]:
    """By id, each once. The loser of an identity is told so by its status; before it is, the one
    that has a status at all comes first, and the order of uids decides as well as any."""
    first: dict[str, ModelRecord] = {}
    for record in sorted(records, key=_precedence):
        if not lost(record.model):
            first.setdefault(record.model.catalogue_id, record)
    return first


def _precedence(record: ModelRecord) -> tuple[bool, str]:
    return record.model.status.observed_generation == 0, record.model.metadata.uid
