"""What a ServedModel is called, and how old it is, as operator and routers read it."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.identity import age_of, read_identity
from support.cluster_objects import NEW, model_object


@pytest.mark.parametrize(
    ("body", "identity"),
    [
        (model_object("tiny"), ("tiny", "default")),
        (model_object("tiny", alias="team/a", profile="gpu"), ("team/a", "gpu")),
        (
            {"metadata": {"name": "tiny"}, "spec": {"alias": 3, "profile": None}},
            ("tiny", "default"),
        ),
        ({"metadata": {"name": "tiny"}, "spec": "unreadable"}, ("tiny", "default")),
    ],
)
def test_the_identity_of_what_cannot_be_read_otherwise(
    body: dict[str, Any], identity: tuple[str, str]
) -> None:
    assert read_identity(body) == identity


@pytest.mark.parametrize(
    ("body", "age"),
    [
        (model_object("tiny", uid="u", created=NEW), (NEW, "u")),
        ({"metadata": {"creationTimestamp": None, "uid": 3}}, ("", "")),
        ({"metadata": None}, ("", "")),
    ],
)
def test_the_age_of_what_cannot_be_read_otherwise(
    body: dict[str, Any], age: tuple[str, str]
) -> None:
    assert age_of(body) == age
