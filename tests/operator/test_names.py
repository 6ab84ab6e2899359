"""Names of children: legible, valid, and never two alike."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_operator import names

CHILDREN = (names.workload, names.engine_key_secret, names.instance)
MODEL_NAMES = st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?\Z")


def test_a_short_name_stays_legible() -> None:
    assert names.workload("gemma") == "gemma-serving"
    assert names.engine_key_secret("gemma") == "gemma-engine-key"
    assert names.instance("gemma") == "gemma"


@given(MODEL_NAMES)
def test_every_name_is_a_dns_label(model: str) -> None:
    for child in CHILDREN:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", child(model))


@pytest.mark.parametrize("child", CHILDREN)
def test_names_that_must_be_changed_stay_apart(child: object) -> None:
    assert callable(child)
    models = ["a.b", "a-b", "x" * 63 + "1", "x" * 63 + "2", "x" * 253]
    assert len({child(model) for model in models}) == len(models)
