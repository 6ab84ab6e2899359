"""Names of children: legible, valid, and never two alike."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_operator import names

Name = Callable[[str], str]


def inspection(model: str) -> str:
    return names.inspection_job(model, "0123456789abcdef")


CHILDREN: tuple[Name, ...] = (
    names.workload,
    names.service,
    names.disruption_budget,
    names.network_policy,
    names.engine_key_secret,
    names.instance,
    inspection,
)
MODEL_NAMES = st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?\Z")


def test_a_short_name_stays_legible() -> None:
    assert names.workload("gemma") == names.service("gemma") == "gemma-serving"
    assert names.network_policy("gemma") == names.disruption_budget("gemma") == "gemma-serving"
    assert names.engine_key_secret("gemma") == "gemma-engine-key"
    assert names.instance("gemma") == "gemma"
    assert inspection("gemma") == "gemma-inspect-01234567"


@given(MODEL_NAMES)
def test_every_name_is_a_dns_label(model: str) -> None:
    for child in CHILDREN:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", child(model))


@given(MODEL_NAMES)
def test_a_services_name_begins_with_a_letter(model: str) -> None:
    assert names.service(model)[0].isalpha()


@pytest.mark.parametrize("child", CHILDREN)
def test_names_that_must_be_changed_stay_apart(child: Name) -> None:
    models = [
        *("a.b", "a-b", "x" * 63 + "1", "x" * 63 + "2", "x" * 253),
        *("3b", "m-3b", "m.3b", "3.b", "3-b"),
    ]
    assert len({child(model) for model in models}) == len(models)


def test_another_inspection_is_another_job() -> None:
    jobs = {names.inspection_job("gemma", digest) for digest in ("0" * 16, "1" * 16)}
    assert len(jobs) == 2
