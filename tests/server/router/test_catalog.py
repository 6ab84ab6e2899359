"""The catalogue, as a table: records and observations in, rows and lookups out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import EngineMode, LoadState
from pumas_server.capabilities import Facts
from pumas_server.contract.descriptors import Modalities
from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.catalog import Catalog, build_catalog
from pumas_server.router.observations import Observation, key_of
from pumas_server.router.source import Endpoint, ModelRecord
from support.models import served_model
from support.routers import external

TEXT = Modalities(input=("text",), output=("text",))
READY = Facts(ready=True, mode=EngineMode.GENERATE, modalities=TEXT, context_tokens=512)


def ours(name: str = "ours", *endpoints: Endpoint, **status: Any) -> ModelRecord:
    model = ServedModel.model_validate(
        {
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": {"source": {"path": f"/weights/{name}-Q4.gguf"}},
            "status": {"loadState": "loaded", **status},
        }
    )
    return ModelRecord(model, "hash", endpoints)


def pod(name: str, *, ready: bool = True) -> Endpoint:
    return Endpoint(name, f"http://{name}:8080", f"http://{name}:8081", ready)


def build(*records: ModelRecord, said: dict[tuple[str, str], Observation] | None = None) -> Catalog:
    """`said` is keyed by the model's and the endpoint's name."""
    observations = {
        key_of(record, endpoint): observation
        for record in records
        for endpoint in record.endpoints
        for (name, uid), observation in (said or {}).items()
        if (record.model.metadata.name, endpoint.uid) == (name, uid)
    }
    return build_catalog(records, observations, 64)


@pytest.mark.parametrize(
    ("ready", "said", "callable_"),
    [
        (True, Observation(READY, "boot", 4), True),
        (False, Observation(READY, "boot", 4), False),
        (True, Observation(Facts(mode=EngineMode.GENERATE), "boot", 4), False),
        (True, None, False),
    ],
    ids=["ready", "not ready", "engine not ready", "silent"],
)
def test_a_target_is_ready_and_has_said_so(
    ready: bool, said: Observation | None, callable_: bool
) -> None:
    record = ours("a", pod("p", ready=ready))
    (row,) = build(record, said={("a", "p"): said} if said else {}).rows
    assert bool(row.targets) is callable_
    assert row.facts.ready is callable_
    if callable_:
        assert row.targets[0].limit == 4 * 4 + 16
    assert row.load_state is LoadState.LOADED


def test_the_facts_are_those_of_an_endpoint_that_can_be_called() -> None:
    other = Facts(ready=True, mode=EngineMode.EMBED, modalities=TEXT, context_tokens=1)
    record = ours("a", pod("old", ready=False), pod("new"))
    said = {
        ("a", "old"): Observation(other, "b1", 1),
        ("a", "new"): Observation(READY, "b2", 2),
    }
    (row,) = build(record, said=said).rows
    assert row.facts == READY
    assert [target.endpoint.uid for target in row.targets] == ["new"]


def test_the_facts_of_a_starting_pod_are_shown_before_it_can_be_called() -> None:
    starting = Facts(mode=EngineMode.GENERATE)
    (row,) = build(ours("a", pod("p")), said={("a", "p"): Observation(starting)}).rows
    reasons = [getattr(d.availability, "reason", None) for d in row.descriptors[:2]]
    assert reasons == ["runtime_unavailable"] * 2


def test_a_pods_own_words_are_the_reason() -> None:
    broken = Observation(Facts(), problem="the engine ended with signal 6")
    (row,) = build(ours("a", pod("p")), said={("a", "p"): broken}).rows
    assert row.error is not None
    assert (row.error.reason, row.error.message) == ("EngineFailed", broken.problem)
    # While another endpoint answers, the model has no error.
    record = ours("a", pod("p"), pod("q"))
    said = {("a", "p"): broken, ("a", "q"): Observation(READY, "b", 1)}
    (row,) = build(record, said=said).rows
    assert row.error is None


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"hash": "other"}, False),
        ({"boot": "b2"}, False),
        ({"pod": "q"}, False),
        ({"name": "b"}, False),
    ],
    ids=["nothing", "spec", "engine restart", "pod", "model"],
)
def test_a_serving_identity_holds_until_any_part_changes(
    change: dict[str, str], same: bool
) -> None:
    def catalog(name: str = "a", pod_: str = "p", hash_: str = "hash", boot: str = "b1") -> Catalog:
        record = ModelRecord(ours(name).model, hash_, (pod(pod_),))
        return build(record, said={(name, pod_): Observation(READY, boot, 1)})

    (row,) = catalog().rows
    after = catalog(
        change.get("name", "a"),
        change.get("pod", "p"),
        change.get("hash", "hash"),
        change.get("boot", "b1"),
    )
    assert after.holds(row.targets[0].identity) is same


def test_identifiers_by_default() -> None:
    (row,) = build(ours("a")).rows
    assert (row.model_id, row.upstream_model, row.entry.provider) == ("a-Q4", "a", "llama_cpp")
    (row,) = build(external("http://x", "far", model=None)).rows
    assert (row.model_id, row.upstream_model) == ("far", "far")
    (row,) = build(external("http://x", "far", model="m/n")).rows
    assert (row.model_id, row.upstream_model) == ("m/n", "m/n")
    assert row.entry.provider == "openai_compatible"


def test_losers_of_an_identity_are_not_listed() -> None:
    winner = external("http://x", "llm")
    loser = external("http://y", "llm", error={"reason": "DuplicateIdentity"})
    catalog = build(winner, loser)
    assert len(catalog.rows) == 1
    assert not catalog.rows[0].profile_required


def test_lookups() -> None:
    catalog = build(
        external("http://x", "dup", profile="p1"),
        external("http://x", "dup", profile="p2"),
        external("http://x", "one", model="lib/one"),
        external("http://x", "lib/two", model="lib/one2"),
        external("http://x", "three", model="dup"),
    )
    assert catalog.select("dup", "p2").profile == "p2"
    assert catalog.select("one", None).alias == "one"
    assert catalog.select("one", "default").alias == "one"
    assert catalog.select_openai("lib/one").alias == "one"
    assert catalog.select_openai("lib/two").alias == "lib/two"
    assert catalog.select_openai("dup@p1").profile == "p1"
    for model, profile, code in (
        ("dup", None, Code.AMBIGUOUS_MODEL),
        ("lib/one", None, Code.MODEL_NOT_FOUND),
        ("dup@p1", None, Code.MODEL_NOT_FOUND),
        ("dup", "p3", Code.MODEL_NOT_FOUND),
        ("DUP", "p1", Code.MODEL_NOT_FOUND),
    ):
        with pytest.raises(ContractError) as refused:
            catalog.select(model, profile)
        assert refused.value.code is code
    # An alias comes before the library id that spells alike.
    with pytest.raises(ContractError) as refused:
        catalog.select_openai("dup")
    assert refused.value.code is Code.AMBIGUOUS_MODEL


def test_an_empty_catalogue() -> None:
    catalog = build()
    assert catalog.served_models.models == ()
    assert catalog.openai_models == {}
    with pytest.raises(ContractError):
        catalog.select("x", None)


def test_a_change_of_one_model_makes_one_row_anew() -> None:
    records = [ModelRecord(served_model(name, uid=name), "h", ()) for name in ("a", "b")]
    before = build_catalog(records, {}, 64)
    other = served_model("b", uid="b", drainSeconds=1)
    after = build_catalog([replace(records[0]), ModelRecord(other, "h", ())], {}, 64, before)
    assert after.rows[0] is before.rows[0]
    assert after.rows[1].model is other
    twin = ModelRecord(served_model("c", uid="c", alias="a", profile="p"), "h", ())
    twins = build_catalog([records[0], twin], {}, 64, after)
    assert [row.profile_required for row in twins.rows] == [True, True]
