"""Whether an object still is what we want: defaults and others' fields are none of our business."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pumas_operator.drift import covers

SCALARS = st.one_of(
    st.booleans(), st.integers(-9, 9), st.sampled_from(["", "a", "b", "10m"]), st.none()
)
MEMBERS = st.sampled_from(["alpha", "beta", "gamma", "delta"])
#: What a server and others add is never called as ours are.
FOREIGN = st.sampled_from(["added", "alien"])


def _named(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.dictionaries(
        st.sampled_from(["x", "y", "z"]), st.dictionaries(MEMBERS, values, max_size=3), max_size=3
    ).map(lambda found: [{"name": name, **rest} for name, rest in found.items()])


VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.dictionaries(MEMBERS, inner, max_size=3), st.lists(inner, max_size=3), _named(inner)
    ),
    max_leaves=12,
)
OBJECTS = st.fixed_dictionaries({"spec": st.dictionaries(MEMBERS, VALUES, max_size=4)})


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, (*path, at))
    else:
        yield path


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from _mappings(inner)


def _named_lists(value: Any) -> Iterator[list[Any]]:
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, list) and inner and all("name" in _dict(item) for item in inner):
            yield inner
        if isinstance(inner, dict | list):
            yield from _named_lists(inner)


def _dict(item: Any) -> dict[str, Any]:
    return item if isinstance(item, dict) else {}


@given(OBJECTS)
def test_an_object_is_what_it_is(wanted: dict[str, Any]) -> None:
    assert covers(wanted, wanted)


@given(OBJECTS, st.data())
def test_what_others_add_is_no_drift(wanted: dict[str, Any], data: st.DataObject) -> None:
    actual = copy.deepcopy(wanted)
    for mapping in list(_mappings(actual)):
        mapping.update(data.draw(st.dictionaries(FOREIGN, SCALARS, max_size=1)))
    for listed in list(_named_lists(actual)):
        at = data.draw(st.integers(0, len(listed)))
        listed.insert(at, {"name": "injected", "image": "sidecar:1"})
    actual["status"] = {"anything": 1}
    assert covers(actual, wanted)


@given(OBJECTS, st.data())
def test_any_changed_leaf_is_drift(wanted: dict[str, Any], data: st.DataObject) -> None:
    leaves = list(_leaves(wanted))
    assume(leaves)
    path = data.draw(st.sampled_from(leaves))
    actual = copy.deepcopy(wanted)
    at: Any = actual
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = data.draw(st.sampled_from(["other", 77, ["other"], {"other": 1}]))
    assert not covers(actual, wanted)


@given(OBJECTS, st.data())
def test_a_missing_leaf_is_drift_unless_it_says_nothing(
    wanted: dict[str, Any], data: st.DataObject
) -> None:
    leaves = [path for path in _leaves(wanted) if isinstance(path[-1], str)]
    assume(leaves)
    path = data.draw(st.sampled_from(leaves))
    actual = copy.deepcopy(wanted)
    at: Any = actual
    for step in path[:-1]:
        at = at[step]
    assume(path[-1] != "name")
    said = at.pop(path[-1])
    assert covers(actual, wanted) is (said in (None, False, "", 0))


@pytest.mark.parametrize(
    ("actual", "wanted", "same"),
    [
        ({"metadata": {"uid": "2"}}, {"metadata": {"uid": "1", "name": "x"}}, True),
        ({"metadata": {}}, {"metadata": {"labels": {"a": "b"}}}, False),
        (
            {"metadata": {"labels": {"a": "b", "c": "d"}}},
            {"metadata": {"labels": {"a": "b"}}},
            True,
        ),
        (
            {"metadata": {"annotations": {"a": "1"}}},
            {"metadata": {"annotations": {"a": "2"}}},
            False,
        ),
        ({"apiVersion": "v1", "kind": "A"}, {"apiVersion": "v2", "kind": "B"}, True),
        ({}, {"spec": {}}, True),
        ({"spec": None}, {"spec": {"a": {}}}, True),
        ({"spec": []}, {"spec": {}}, False),
        ({"spec": {"a": 1}}, {"spec": {"a": True}}, False),
        ({"spec": {"a": "1"}}, {"spec": {"a": 1}}, False),
        ({"spec": {"a": ["b", "c"]}}, {"spec": {"a": ["b"]}}, False),
        ({"spec": {"a": [{"p": 1, "q": 2}]}}, {"spec": {"a": [{"p": 1}]}}, True),
        ({"spec": {}}, {"spec": {"a": []}}, True),
        ({"spec": {"a": [1]}}, {"spec": {"a": []}}, False),
        ({"c": [{"name": "y"}, {"name": "x"}]}, {"c": [{"name": "x"}, {"name": "y"}]}, True),
        ({"c": [{"name": "y"}]}, {"c": [{"name": "x"}]}, False),
        ({"c": "xy"}, {"c": [{"name": "x"}]}, False),
        ({"c": [{"name": "x"}, {"name": "x"}]}, {"c": [{"name": "x"}]}, False),
    ],
)
def test_cases(actual: dict[str, Any], wanted: dict[str, Any], same: bool) -> None:
    assert covers(actual, wanted) is same
