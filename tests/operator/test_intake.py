"""What comes in: whom an event concerns, and whose memory ends with it."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.vocabulary import MODEL_NAME_ANNOTATION
from pumas_operator.intake import WATCHED
from pumas_operator.kinds import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    JOB,
    NETWORK_POLICY,
    POD,
    SERVED_MODEL,
    SERVICE,
    SERVING_PROFILE,
    Kind,
)
from support.cluster_objects import model_object
from support.intake import Heard, at, child, profile


@pytest.fixture
def heard() -> Heard:
    return Heard()


A = model_object("a", uid="u-a", alias="chat")
RIVAL = model_object("b", uid="u-b", alias="chat", namespace="other")
OTHER_PROFILE = model_object("c", uid="u-c", alias="chat", profile="big")
OTHER_ALIAS = model_object("d", uid="u-d")
#: Its alias is its name, and its profile the one that nobody need name.
BY_NAME = model_object("chat", uid="u-e", profile="default")


def test_a_model_that_comes_concerns_itself_and_who_has_its_alias_and_profile(
    heard: Heard,
) -> None:
    heard.knowing(RIVAL, OTHER_PROFILE, OTHER_ALIAS, BY_NAME)
    heard.intake.seen(SERVED_MODEL, A)
    assert heard.concerned() == {"team/a", "other/b", "team/chat"}


def test_a_model_that_changes_concerns_nobody_else(heard: Heard) -> None:
    heard.knowing(A, RIVAL, BY_NAME)
    heard.intake.seen(SERVED_MODEL, at(2, A))
    assert heard.concerned() == {"team/a"}


def test_a_model_that_goes_concerns_who_waited_for_its_alias(heard: Heard) -> None:
    heard.knowing(A, RIVAL, OTHER_PROFILE, OTHER_ALIAS)
    heard.intake.gone(SERVED_MODEL, at(2, A))
    assert heard.concerned() == {"team/a", "other/b"}
    assert set(heard.uids(SERVED_MODEL)) == {"b", "c", "d"}
    assert heard.forgotten == ["model u-a"]


def test_a_model_made_anew_under_its_name_is_another(heard: Heard) -> None:
    """Nobody saw the end of the former: its rivals and whoever remembers it must hear of it."""
    newcomer = at(9, model_object("a", uid="u-new", alias="embed"))
    heard.knowing(A, RIVAL, model_object("f", alias="embed"), OTHER_ALIAS)
    heard.intake.seen(SERVED_MODEL, newcomer)
    assert heard.concerned() == {"team/a", "other/b", "team/f"}
    assert heard.forgotten == ["model u-a"]
    assert heard.uids(SERVED_MODEL)["a"] == "u-new"


def test_the_late_end_of_the_former_leaves_the_newcomer(heard: Heard) -> None:
    newcomer = at(9, model_object("a", uid="u-new", alias="chat"))
    heard.knowing(A, newcomer, RIVAL)
    heard.intake.gone(SERVED_MODEL, at(8, A))
    assert heard.concerned() == {"team/a", "other/b"}
    assert heard.uids(SERVED_MODEL) == {"a": "u-new", "b": "u-b"}
    assert set(heard.forgotten) == {"model u-a"}


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("kind", "body"),
    [(SERVED_MODEL, A), (SERVING_PROFILE, profile("default")), (POD, child()), (JOB, child())],
)
def test_a_copy_that_is_no_newer_changes_nothing(
    kind: Kind, body: dict[str, Any], version: int, heard: Heard
) -> None:
    heard.knowing(OTHER_ALIAS)
    heard.intake.seen(kind, at(5, body))
    assert heard.concerned() != set()
    held = tuple(heard.objects.all(kind))
    heard.intake.seen(kind, at(version, {**body, "spec": {"alias": "from before"}}))
    assert heard.concerned() == set()
    assert tuple(heard.objects.all(kind)) == held
    assert heard.forgotten == []


@pytest.mark.parametrize("event", ["comes", "changes", "goes"])
def test_a_profile_concerns_all_models_that_name_it(event: str, heard: Heard) -> None:
    heard.knowing(A, RIVAL, OTHER_PROFILE, BY_NAME)
    concerned = {"default": {"team/a", "other/b", "team/chat"}, "big": {"team/c"}, "unused": set()}
    for name, models in concerned.items():
        if event != "comes":
            heard.intake.seen(SERVING_PROFILE, profile(name))
            heard.concerned()
        take = heard.intake.gone if event == "goes" else heard.intake.seen
        take(SERVING_PROFILE, profile(name, 2))
        assert heard.concerned() == models, name
    assert (heard.objects.keys(SERVING_PROFILE) == set()) is (event == "goes")


@pytest.mark.parametrize(
    "kind", [SERVICE, DISRUPTION_BUDGET, NETWORK_POLICY, DEPLOYMENT, JOB, POD], ids=lambda k: k.name
)
def test_a_child_concerns_the_model_that_it_names(kind: Kind, heard: Heard) -> None:
    heard.knowing(A, RIVAL)
    heard.intake.seen(kind, child())
    assert heard.concerned() == {"team/a.long.name"}
    heard.intake.seen(kind, child(version=2))
    assert heard.concerned() == {"team/a.long.name"}
    heard.intake.gone(kind, child(version=3))
    assert heard.concerned() == {"team/a.long.name"}
    assert heard.objects.keys(kind) == set()
    assert heard.forgotten == (["pod u"] if kind is POD else [])


def test_a_pod_made_anew_under_its_name_is_another(heard: Heard) -> None:
    former = child(uid="u1", annotations={MODEL_NAME_ANNOTATION: "former"})
    heard.intake.seen(POD, former)
    heard.concerned()
    heard.intake.seen(POD, child(uid="u2"))
    assert heard.concerned() == {"team/former", "team/a.long.name"}
    assert heard.forgotten == ["pod u1"]


def test_a_listing_of_kopfs_is_passed_on(heard: Heard) -> None:
    heard.intake.relisted()
    assert heard.relistings == [True]


def test_what_is_watched_and_where() -> None:
    ours = "app.kubernetes.io/managed-by=pumas-operator"
    assert [(kind.plural, selector, at_home) for kind, selector, at_home in WATCHED] == [
        ("leases", "app.kubernetes.io/part-of=pumas-serving", True),
        ("servedmodels", "", False),
        ("servingprofiles", "", True),
        ("services", ours, False),
        ("poddisruptionbudgets", ours, False),
        ("networkpolicies", ours, False),
        ("deployments", ours, False),
        ("jobs", ours, False),
        ("pods", ours, False),
    ]
