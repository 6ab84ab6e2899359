"""Records from API objects: which addresses may be called, and which model has a name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.engine_key import engine_key
from pumas_crds.vocabulary import LoadState
from pumas_server.router.cluster_records import build_records, read_model
from pumas_server.router.source import Endpoint, ModelRecord
from support.cluster_objects import (
    NEW,
    OLD,
    address,
    external_object,
    model_object,
    slice_object,
)

SECRET = b"the installation's secret"


def records(models: list[Any], *slices: Any) -> tuple[ModelRecord, ...]:
    return build_records(map(read_model, models), slices, SECRET)


def endpoints(*slices: Any, **spec: Any) -> tuple[Endpoint, ...]:
    (record,) = records([model_object(**spec)], *slices)
    return record.endpoints


def test_a_pod_is_called_at_its_own_address_with_the_models_key() -> None:
    (endpoint,) = endpoints(slice_object(address("10.0.0.1", ready=True)))
    assert endpoint == Endpoint(
        uid="uid-of-pod",
        url="http://10.0.0.1:8080",
        supervisor_url="http://10.0.0.1:8081",
        ready=True,
        api_key=engine_key(SECRET, "uid-of-tiny"),
    )


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ({}, True),
        ({"ready": None}, True),
        ({"ready": True}, True),
        ({"ready": False}, False),
        ({"ready": True, "serving": True, "terminating": False}, True),
        ({"ready": None, "terminating": None}, True),
        ({"ready": False, "serving": True, "terminating": True}, False),
        ({"ready": True, "serving": True, "terminating": True}, False),
        ({"terminating": True}, False),
    ],
)
def test_which_address_is_ready(conditions: dict[str, bool | None], ready: bool) -> None:
    (endpoint,) = endpoints(slice_object(address("10.0.0.1", **conditions)))
    assert endpoint.ready is ready


@pytest.mark.parametrize(
    ("ip", "family", "url"),
    [
        ("10.0.0.1", "IPv4", "http://10.0.0.1:8080"),
        ("fd00::1", "IPv6", "http://[fd00::1]:8080"),
    ],
)
def test_both_families_make_urls(ip: str, family: str, url: str) -> None:
    (endpoint,) = endpoints(slice_object(address(ip), family=family))
    assert endpoint.url == url
    assert endpoint.supervisor_url == url.replace("8080", "8081")


def test_a_pod_with_two_families_is_one_endpoint() -> None:
    (endpoint,) = endpoints(
        slice_object(address("fd00::1", ready=True), name="six", family="IPv6"),
        slice_object(address("10.0.0.1", ready=True), name="four"),
    )
    assert (endpoint.url, endpoint.ready) == ("http://10.0.0.1:8080", True)


@pytest.mark.parametrize(
    ("first", "second", "ready"),
    [
        ({"ready": True}, {"ready": False}, True),
        ({"ready": False}, {"ready": True}, True),
        ({"ready": False}, {"ready": False}, False),
        ({"ready": True}, {"ready": False, "terminating": True}, False),
    ],
)
def test_a_pod_in_two_slices_is_one_endpoint(
    first: dict[str, bool], second: dict[str, bool], ready: bool
) -> None:
    (endpoint,) = endpoints(
        slice_object(address("10.0.0.1", **first), name="old"),
        slice_object(address("10.0.0.1", **second), name="new"),
    )
    assert endpoint.ready is ready


def test_an_address_without_a_pod_is_an_endpoint_of_its_own() -> None:
    found = endpoints(slice_object(address("10.0.0.1", None), address("10.0.0.2", None)))
    assert [e.uid for e in found] == ["10.0.0.1", "10.0.0.2"]


def test_ports_are_the_slices_or_the_usual_ones() -> None:
    (told,) = endpoints(slice_object(address("10.0.0.1"), engine=18080, supervisor=18081))
    assert (told.url, told.supervisor_url) == ("http://10.0.0.1:18080", "http://10.0.0.1:18081")
    (usual,) = endpoints(slice_object(address("10.0.0.1"), engine=None, supervisor=None))
    assert (usual.url, usual.supervisor_url) == ("http://10.0.0.1:8080", "http://10.0.0.1:8081")
    nameless = slice_object(address("10.0.0.1")) | {"ports": None}
    assert endpoints(nameless) == (usual,)


@pytest.mark.parametrize(
    "piece",
    [
        slice_object(address("10.6.6.6"), namespace="elsewhere"),
        slice_object(address("10.6.6.6"), model="other"),
        slice_object(address("files.example"), family="FQDN"),
        slice_object() | {"endpoints": None},
        {"metadata": {"name": "x", "namespace": "team", "uid": "u", "labels": None}},
        {"metadata": {"name": "x", "namespace": "team", "uid": "u"}},
    ],
    ids=["another namespace", "another model", "a name", "empty", "no labels", "nothing"],
)
def test_other_slices_are_nobodys(piece: dict[str, Any]) -> None:
    (endpoint,) = endpoints(piece, slice_object(address("10.0.0.1")))
    assert endpoint.url == "http://10.0.0.1:8080"


def test_a_suspended_model_admits_nothing() -> None:
    (endpoint,) = endpoints(slice_object(address("10.0.0.1", ready=True)), suspend=True)
    assert not endpoint.ready


def test_the_hash_is_the_one_the_operator_wrote() -> None:
    (record,) = records([model_object(status={"specHash": "abc", "loadState": "loaded"})])
    assert (record.spec_hash, record.model.status.load_state) == ("abc", LoadState.LOADED)
    (record,) = records([model_object()])
    assert (record.spec_hash, record.model.status.load_state) == ("", LoadState.UNLOADED)


# External servers


def test_an_external_server_is_called_at_its_root_without_a_key() -> None:
    (record,) = records([external_object("https://far.example/v1/")])
    assert record.endpoints == (Endpoint("external", "https://far.example", None, ready=True),)


@pytest.mark.parametrize(
    "rest",
    [
        {"status": {"error": {"reason": "EndpointNotAllowed", "message": "no"}}},
        {"status": {"error": {"reason": "AWordOfTomorrow"}}},
        {"suspend": True},
    ],
    ids=["refused", "refused in unknown words", "suspended"],
)
def test_an_external_server_that_may_not_be_called(rest: dict[str, Any]) -> None:
    (record,) = records([external_object("https://far.example", **rest)])
    assert record.endpoints == ()


# What cannot be read


def test_an_unknown_word_in_a_status_does_not_take_a_model_away() -> None:
    status = {
        "loadState": "loaded",
        "specHash": "abc",
        "error": {"reason": "AWordOfTomorrow"},
        "conditions": 7,
    }
    (record,) = records([model_object(status=status)], slice_object(address("10.0.0.1")))
    assert (record.spec_hash, record.model.status.load_state) == ("abc", LoadState.LOADED)
    assert [e.ready for e in record.endpoints] == [True]
    (record,) = records([model_object(status={"loadState": "melted"})])
    assert record.model.status.load_state is LoadState.UNLOADED


@pytest.mark.parametrize(
    "spec", [{"alias": "!"}, {"unknown": 1}, {"replicas": -1}, {"source": None}]
)
def test_a_model_that_cannot_be_read_is_not_listed_and_keeps_its_name(
    spec: dict[str, Any],
) -> None:
    odd = model_object("odd", **spec)
    assert [r.model.alias for r in records([odd, model_object("fine")])] == ["fine"]
    rival = model_object("rival", alias=spec.get("alias", "odd"), created=NEW)
    assert records([odd, rival]) == ()


# Identity


@pytest.mark.parametrize(
    ("rivals", "winner"),
    [
        ([("a", "u2", OLD), ("b", "u1", NEW)], "u2"),
        ([("a", "u1", NEW), ("b", "u2", OLD)], "u2"),
        ([("a", "u2", OLD), ("b", "u1", OLD)], "u1"),
        ([("a", "u3", NEW), ("b", "u2", OLD), ("c", "u1", NEW)], "u2"),
    ],
)
def test_the_oldest_has_the_name_then_the_smaller_uid(
    rivals: list[tuple[str, str, str]], winner: str
) -> None:
    models = [
        model_object(name, uid=uid, created=created, alias="llm", namespace=f"team-{name}")
        for name, uid, created in rivals
    ]
    for order in (models, models[::-1]):
        assert [r.model.metadata.uid for r in records(order)] == [winner]


def test_an_identity_is_alias_and_profile_as_they_take_effect() -> None:
    models = [
        model_object("llm", uid="u1"),
        model_object("second", uid="u2", alias="llm", profile="default", created=NEW),
        model_object("third", uid="u3", alias="llm", profile="fast", created=NEW),
        model_object("llm", uid="u4", namespace="elsewhere", created=NEW),
    ]
    assert [r.model.metadata.uid for r in records(models)] == ["u1", "u3"]
    # The winner goes, and the next one in age has the name.
    assert [r.model.metadata.uid for r in records(models[1:])] == ["u2", "u3"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.sampled_from(["default", "fast"]),
            st.sampled_from([OLD, NEW]),
        ),
        max_size=8,
    ),
    st.randoms(),
)
def test_every_reader_comes_to_the_same_models(
    drawn: list[tuple[str, str, str]], random: Any
) -> None:
    models = [
        model_object(f"m{i}", alias=alias, profile=profile, created=created)
        for i, (alias, profile, created) in enumerate(drawn)
    ]
    shuffled = models[:]
    random.shuffle(shuffled)
    found = records(models)
    assert found == records(shuffled)
    assert len({(r.model.alias, r.model.profile) for r in found}) == len(found)
    assert {(r.model.alias, r.model.profile) for r in found} == {(a, p) for a, p, _ in drawn}


_conditions = st.fixed_dictionaries(
    {}, optional={n: st.sampled_from([None, True, False]) for n in ("ready", "terminating")}
)
_addresses = st.builds(
    lambda pod, number, conditions: (pod, f"10.0.0.{number}", conditions),
    st.sampled_from(["p", "q", "r"]),
    st.integers(1, 3),
    _conditions,
)


@given(st.lists(st.lists(_addresses, max_size=4), max_size=3))
def test_one_endpoint_a_pod_and_none_ready_that_is_ending(drawn: list[list[Any]]) -> None:
    pieces = [
        slice_object(*(address(ip, pod, **c) for pod, ip, c in entries), name=f"s{i}")
        for i, entries in enumerate(drawn)
    ]
    found = endpoints(*pieces)
    assert found == endpoints(*pieces[::-1])
    told = [entry for entries in drawn for entry in entries]
    assert [e.uid for e in found] == sorted({f"uid-of-{pod}" for pod, _, _ in told})
    for endpoint in found:
        mine = [c for pod, _, c in told if f"uid-of-{pod}" == endpoint.uid]
        ending = any(c.get("terminating") for c in mine)
        ready = any(c.get("ready") is not False for c in mine)
        assert endpoint.ready is (ready and not ending)
