"""Profiles of a release: applied in order, waited for, pruned last."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from pumas_operator.install_profiles import SERVED_SECONDS, install


def profile(name: str) -> dict[str, Any]:
    return {"kind": "ServingProfile", "metadata": {"name": name}, "spec": {}}


class Namespace:
    """Profiles in memory, behind an API server that can be told to fail."""

    def __init__(self, *names: str, failures: tuple[int, ...] = ()) -> None:
        self.there = {name: profile(name) for name in names}
        self.calls: list[str] = []
        self.failures = list(failures)

    def apply(self, wanted: dict[str, Any]) -> None:
        name = wanted["metadata"]["name"]
        self.calls.append(f"apply {name}")
        if self.failures:
            raise ApiException(status=self.failures.pop(0))
        self.there[name] = wanted

    def names(self) -> list[str]:
        return sorted(self.there)

    def delete(self, name: str) -> None:
        self.calls.append(f"delete {name}")
        del self.there[name]


def test_applies_all_and_then_deletes_what_is_left_over() -> None:
    there = Namespace("cpu", "old")
    done = list(install(there, [profile("cpu"), profile("default")]))
    assert done == ["applied cpu", "applied default", "deleted old"]
    assert there.calls == ["apply cpu", "apply default", "delete old"]


def test_no_profiles_means_none() -> None:
    there = Namespace("default")
    assert list(install(there, [])) == ["deleted default"]


def test_waits_until_the_kind_is_served() -> None:
    there, pauses = Namespace(failures=(404, 404)), list[float]()
    assert list(install(there, [profile("cpu")], pauses.append)) == ["applied cpu"]
    assert pauses == [1, 1]


def test_does_not_wait_for_ever() -> None:
    there, pauses = Namespace(failures=(404,) * 1000), list[float]()
    with pytest.raises(ApiException):
        list(install(there, [profile("cpu")], pauses.append))
    assert len(pauses) == SERVED_SECONDS


def test_a_refusal_deletes_nothing() -> None:
    there = Namespace("cpu", "old", failures=(422,))
    with pytest.raises(ApiException):
        list(install(there, [profile("cpu")], lambda _: pytest.fail("waited for a refusal")))
    assert "old" in there.there
