"""Of several models with one alias and profile exactly one is served, whoever looks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.identity import read_identity
from pumas_crds.served_model import ServedModel
from pumas_operator.identity import is_duplicate
from support.cluster_objects import model_object


def _duplicate(body: dict[str, Any], bodies: list[dict[str, Any]]) -> bool:
    model = ServedModel.model_validate(body)
    return is_duplicate(model, body["metadata"]["creationTimestamp"], bodies)


MADE = st.builds(
    lambda day, alias, profile, namespace: {
        "created": f"2030-01-0{day}T00:00:00Z",
        "alias": alias,
        "profile": profile,
        "namespace": namespace,
    },
    st.integers(1, 3),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["default", "gpu"]),
    st.sampled_from(["team", "other"]),
)


@given(st.lists(MADE, min_size=1, max_size=7), st.randoms())
def test_one_of_each_identity_is_served_in_whatever_order_they_are_seen(
    made: list[dict[str, Any]], random: Any
) -> None:
    bodies = [model_object(f"m{n}", uid=f"u{n}", **told) for n, told in enumerate(made)]
    served = [body for body in bodies if not _duplicate(body, bodies)]
    assert sorted(map(read_identity, served)) == sorted(set(map(read_identity, bodies)))
    shuffled = list(bodies)
    random.shuffle(shuffled)
    assert [body for body in bodies if not _duplicate(body, shuffled)] == served


def test_a_newcomer_takes_no_name_away() -> None:
    old = model_object("old", alias="a", created="2030-01-01T00:00:00Z", uid="z")
    new = model_object("new", alias="a", created="2030-01-01T00:00:01Z", uid="b")
    assert not _duplicate(old, [old, new])
    assert _duplicate(new, [old, new])


def test_one_of_the_same_second_is_told_by_its_uid() -> None:
    one, two = (model_object(uid, alias="a", uid=uid) for uid in ("u1", "u2"))
    assert not _duplicate(one, [one, two])
    assert _duplicate(two, [one, two])
