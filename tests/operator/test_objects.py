"""The operator's memory: never older than it was, and never of another object than the newest."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.vocabulary import API_VERSION, MODEL_NAME_ANNOTATION, MODEL_UID_LABEL
from pumas_operator.kinds import DEPLOYMENT, POD
from pumas_operator.objects import Key, Objects, key_of, model_key, owner_of, uid_of

KEY = Key("team", "tiny")


def child(
    version: int | str = 1, *, uid: str = "u", owner: str = "m", name: str = "tiny", **told: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "team", "uid": uid}
    metadata["resourceVersion"] = str(version)
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": API_VERSION, "kind": "ServedModel", "uid": owner, "controller": True}
        ]
    return {"metadata": metadata | told}


def pod(version: int = 1, *, model: str = "m", name: str = "p") -> dict[str, Any]:
    body = child(version, owner="", name=name, uid=f"uid-{name}")
    body["metadata"]["labels"] = {MODEL_UID_LABEL: model}
    return body


def test_an_older_copy_replaces_nothing() -> None:
    objects = Objects()
    assert objects.put(DEPLOYMENT, child(5))
    assert not objects.put(DEPLOYMENT, child(4))
    assert not objects.put(DEPLOYMENT, child(5))
    assert objects.get(DEPLOYMENT, KEY) == child(5)
    assert objects.put(DEPLOYMENT, child(10)), "versions are numbers: 10 is after 5"


def test_another_of_the_same_name_replaces_it() -> None:
    objects = Objects()
    objects.put(DEPLOYMENT, child(3, owner="m1"))
    assert objects.put(DEPLOYMENT, child(5, uid="v", owner="m2"))
    assert tuple(objects.owned(DEPLOYMENT, "m1")) == ()
    assert tuple(objects.owned(DEPLOYMENT, "m2")) == (child(5, uid="v", owner="m2"),)


def test_one_that_had_the_name_before_replaces_nothing() -> None:
    objects = Objects()
    now, before = child(5, uid="v"), child(3, uid="u")
    objects.put(DEPLOYMENT, now)
    assert not objects.put(DEPLOYMENT, before), "told late by a process that never saw its end"
    objects.remove(DEPLOYMENT, KEY, "u")
    assert objects.get(DEPLOYMENT, KEY) == now
    assert not objects.put(DEPLOYMENT, now), "it is held"


def test_the_end_of_the_former_does_not_end_the_later() -> None:
    objects = Objects()
    objects.put(DEPLOYMENT, child(5, uid="v"))
    objects.remove(DEPLOYMENT, KEY, "u")
    assert objects.get(DEPLOYMENT, KEY) is not None
    objects.remove(DEPLOYMENT, KEY, "v")
    assert objects.get(DEPLOYMENT, KEY) is None
    assert tuple(objects.owned(DEPLOYMENT, "m")) == ()
    objects.remove(DEPLOYMENT, KEY, "v")


def test_what_another_has_replaced_does_not_come_back() -> None:
    objects = Objects()
    old, new = child(5, uid="u"), child(9, uid="v")
    assert objects.put(DEPLOYMENT, old) and objects.put(DEPLOYMENT, new)
    assert not objects.put(DEPLOYMENT, old)
    assert objects.get(DEPLOYMENT, KEY) == new


def test_an_object_that_changes_hands_is_nobodys_but_the_new_owners() -> None:
    objects = Objects()
    objects.put(DEPLOYMENT, child(1, owner="m1"))
    objects.put(DEPLOYMENT, child(2, owner=""))
    assert tuple(objects.owned(DEPLOYMENT, "m1")) == ()


def test_pods_are_their_models_by_label() -> None:
    objects = Objects()
    for name, model in (("b", "m"), ("a", "m"), ("c", "other")):
        objects.put(POD, pod(name=name, model=model))
    assert [key_of(body).name for body in objects.pods("m")] == ["a", "b"]
    assert objects.keys(POD) == {Key("team", name) for name in "abc"}
    assert len(list(objects.all(POD))) == 3


def test_only_a_controlling_model_of_ours_owns() -> None:
    reference = {"apiVersion": API_VERSION, "kind": "ServedModel", "uid": "m", "controller": True}
    others: list[dict[str, Any]] = [
        {**reference, "controller": False},
        {**reference, "kind": "ServingProfile"},
        {**reference, "apiVersion": "apps/v1"},
        {"uid": "m"},
    ]
    for other in others:
        assert owner_of({"metadata": {"ownerReferences": [other]}}) == ""
    later = {**reference, "apiVersion": "serving.pumas.dev/v2"}
    assert owner_of({"metadata": {"ownerReferences": [*others, later]}}) == "m"
    assert owner_of({}) == uid_of({}) == ""


def test_a_child_tells_its_models_key() -> None:
    body = child(annotations={MODEL_NAME_ANNOTATION: "a.long.name"})
    assert model_key(body) == Key("team", "a.long.name")


def test_field_owners_are_kept_only_until_ours_are_claimed() -> None:
    objects = Objects()
    posted = [{"manager": "pumas-operator", "operation": "Update"}]
    applied = [{"manager": "pumas-operator", "operation": "Apply"}]
    objects.put(DEPLOYMENT, child(1, managedFields=posted))
    held = objects.get(DEPLOYMENT, KEY)
    assert held == child(1, managedFields=posted)
    objects.put(DEPLOYMENT, child(2, managedFields=applied))
    assert objects.get(DEPLOYMENT, KEY) == child(2)


PUT = st.tuples(
    st.just("put"), st.sampled_from(["a", "b"]), st.sampled_from(["u", "v"]),
    st.sampled_from(["m", "n", ""]), st.integers(1, 5),
)  # fmt: skip
REMOVE = st.tuples(
    st.just("remove"), st.sampled_from(["a", "b"]), st.sampled_from(["u", "v"]),
    st.just(""), st.just(0),
)  # fmt: skip


@given(st.lists(st.one_of(PUT, REMOVE), max_size=30))
def test_the_index_of_owners_is_what_a_look_at_everything_tells(
    steps: list[tuple[str, str, str, str, int]],
) -> None:
    objects = Objects()
    for verb, name, uid, owner, version in steps:
        if verb == "put":
            objects.put(DEPLOYMENT, child(version, uid=uid, owner=owner, name=name))
        else:
            objects.remove(DEPLOYMENT, Key("team", name), uid)
        for model in ("m", "n", ""):
            told = [body for body in objects.all(DEPLOYMENT) if owner_of(body) == model]
            assert sorted(map(str, objects.owned(DEPLOYMENT, model))) == sorted(map(str, told))
