"""The catalogue as bytes: what is rendered again, and what the revision and the tags follow."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from pumas_server.router.lmsp.catalogue import Catalogue, Entry, Listing
from pumas_server.router.lmsp.problems import PAGES, canonical
from pumas_server.router.lmsp.query import CAPABILITIES, EVERYTHING, Selection
from pumas_server.router.source import ModelRecord
from support.catalogue import A, E, X, catalogued, pod, running_catalogue, six
from support.eventually import eventually


def listing_of(*records: ModelRecord) -> Listing:
    return Catalogue(PAGES).listing(records)


def body_of(listing: Listing, selection: Selection = EVERYTHING) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(listing.select(selection).body)
    return body


def entry_of(listing: Listing, model_id: str) -> Entry:
    entry = listing.find(model_id)
    assert entry is not None
    return entry


def test_the_list_is_the_models_on_their_own_sorted() -> None:
    listing = listing_of(*six())
    body = body_of(listing)
    assert list(body) == ["object", "catalog_revision", "data"]
    ids = [model["id"] for model in body["data"]]
    assert ids == sorted(ids)
    alone = [json.loads(entry_of(listing, model_id).representation.body) for model_id in ids]
    assert body["data"] == alone


def test_an_empty_catalogue_has_a_revision_too() -> None:
    body = body_of(listing_of())
    assert body["data"] == []
    assert body["catalog_revision"] == sha256(b"[]").hexdigest()[:16]


def test_anybody_can_compute_the_revision() -> None:
    body = body_of(listing_of(*six()))
    assert body["catalog_revision"] == sha256(canonical(body["data"]).encode()).hexdigest()[:16]


def test_the_order_of_records_is_of_no_matter() -> None:
    bodies = {
        listing_of(*some).select(EVERYTHING).body for some in itertools.permutations(six(), 6)
    }
    assert len(bodies) == 1


ALL_SELECTIONS = [
    Selection(frozenset(some), ready_only)
    for count in range(len(CAPABILITIES) + 1)
    for some in itertools.combinations(CAPABILITIES, count)
    for ready_only in (False, True)
]


def test_every_selection_is_the_plain_filter() -> None:
    listing = listing_of(*six())
    whole = body_of(listing)
    for selection in ALL_SELECTIONS:
        body = body_of(listing, selection)
        assert body["catalog_revision"] == whole["catalog_revision"]
        assert body["data"] == [
            model
            for model in whole["data"]
            if all(model["capabilities"][name] for name in selection.capabilities)
            and (not selection.ready_only or model["status"] == "ready")
        ]
    assert body_of(listing, Selection(nothing=True))["data"] == []


def test_lists_of_other_contents_have_other_tags() -> None:
    listing = listing_of(*six())
    found = {listing.select(each).etag: listing.select(each).body for each in ALL_SELECTIONS}
    assert len(found) == len(set(found.values())) > 2


def test_a_list_is_rendered_once() -> None:
    catalogue, records = Catalogue(PAGES), six()
    listing = catalogue.listing(records)
    assert catalogue.listing(records) is listing
    first = listing.select(EVERYTHING)
    assert catalogue.listing(records).select(EVERYTHING) is first
    entry = entry_of(listing, A)
    assert entry.representation is entry.representation


def test_models_are_rendered_ahead_in_slices() -> None:
    catalogue = Catalogue(PAGES)
    records = tuple(catalogued(f"m{number}") for number in range(120))
    steps = sum(1 for _ in catalogue.render(records))
    assert steps == 3
    rendered = {id(entry) for entry in catalogue._entries.values()}
    listing = catalogue.listing(records)
    assert {id(entry_of(listing, f"m{number}")) for number in range(120)} == rendered


def test_who_asks_meanwhile_gets_the_newest() -> None:
    catalogue, before = Catalogue(PAGES), six()
    after = (catalogued(A, "loading"), *before[1:])
    rendering = catalogue.render(before)
    next(rendering)
    first = catalogue.listing(after)
    assert list(rendering) == []
    assert catalogue.listing(after) is first
    assert entry_of(catalogue.listing((*after, catalogued("z"))), A).object["status"] == "loading"


async def test_the_first_listing_is_rendered_before_anybody_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered: list[str] = []
    whole = Entry.__init__

    def noted(self: Entry, record: ModelRecord, pages: str) -> None:
        whole(self, record, pages)
        rendered.append(self.id)

    monkeypatch.setattr(Entry, "__init__", noted)
    async with running_catalogue() as running:
        await eventually(lambda: len(rendered) == 6, "all six are rendered")
        assert (await running.get()).status == 200
        assert len(rendered) == 6


def test_a_change_of_one_model_renders_that_one() -> None:
    catalogue, before = Catalogue(PAGES), six()
    old = catalogue.listing(before)
    # As a source gives them: a new record for each, whose model is the same object.
    loaded = catalogued(A, "loaded", endpoints=(pod(),))
    after = (*(replace(record) for record in before[1:]), loaded)
    new = catalogue.listing(after)
    assert new is not old
    same = {r.model.catalogue_id: new.find(r.model.catalogue_id) for r in before}
    kept = {model_id for model_id, entry in same.items() if entry is old.find(model_id)}
    assert kept == {r.model.catalogue_id for r in before} - {A}
    assert entry_of(new, A).object["status"] == "ready"
    assert new.revision != old.revision


def test_readiness_of_an_address_renders_its_model() -> None:
    catalogue = Catalogue(PAGES)
    one = catalogued("a", "loaded", endpoints=(pod(ready=False),))
    assert entry_of(catalogue.listing((one,)), "a").object["status"] == "loading"
    two = replace(one, endpoints=(pod(ready=True),))
    assert entry_of(catalogue.listing((two,)), "a").object["status"] == "ready"


def test_a_model_that_went_is_forgotten() -> None:
    catalogue = Catalogue(PAGES)
    catalogue.listing(six())
    assert catalogue.listing(()).find(A) is None


def test_losers_of_an_identity_are_not_listed() -> None:
    loser = catalogued(E, "failed", status={"error": {"reason": "DuplicateIdentity"}})
    listing = listing_of(loser, *six())
    assert entry_of(listing, E).object["status"] == "ready"
    assert listing.revision == listing_of(*six()).revision


def test_an_id_is_listed_once_before_the_loser_is_told() -> None:
    told = catalogued("a", "loaded", ready=True)
    untold = catalogued("a", status={"observedGeneration": 0})
    for records in ((told, untold), (untold, told)):
        body = body_of(listing_of(*records))
        assert [(model["id"], model["status"]) for model in body["data"]] == [("a", "ready")]


@pytest.mark.parametrize("name", ["qwen", "Qwen3 14B", A.upper(), "", f"{A}\n", f" {A}", "org"])
def test_nothing_but_an_id_is_found(name: str) -> None:
    assert listing_of(*six()).find(name) is None


def test_pages_may_be_elsewhere() -> None:
    entry = entry_of(Catalogue("https://example/p/").listing(six()), X)
    assert entry.object["error"]["type"] == "https://example/p/model_load_failed"
