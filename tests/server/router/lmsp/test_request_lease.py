"""Records as Leases: what is written is read again, and what is not ours is nothing."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router.lmsp.request_lease import (
    RequestLease,
    Version,
    build_answer,
    build_claim,
    build_takeover,
    lease_name,
    read_request,
    read_version,
)
from pumas_server.router.lmsp.request_records import CLAIM_SECONDS, KEPT_SECONDS, StoredAnswer
from support.api_store import merge

NOW = datetime(2030, 1, 1, 12, 0, 0, 120, UTC)
VERSION = Version("name", "uid", "7")


def claimed() -> dict[str, Any]:
    body: dict[str, Any] = build_claim("name", "token", "print", NOW)
    return merge(body, {"metadata": {"uid": "uid", "resourceVersion": "7"}})  # type: ignore[no-any-return]


def answered(answer: StoredAnswer) -> dict[str, Any]:
    return merge(claimed(), build_answer(VERSION, answer, NOW))  # type: ignore[no-any-return]


def test_a_claim_is_this_lease() -> None:
    assert build_claim("name", "token", "print", NOW) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "name",
            "labels": {"serving.pumas.dev/purpose": "request"},
            "annotations": {"serving.pumas.dev/fingerprint": "print"},
        },
        "spec": {
            "holderIdentity": "token",
            "leaseDurationSeconds": 30,
            "renewTime": "2030-01-01T12:00:00.000120Z",
        },
    }


def test_what_is_written_is_read() -> None:
    assert read_version(claimed()) == VERSION
    assert read_request(claimed()) == RequestLease("token", "print", NOW, CLAIM_SECONDS, None)


def test_a_takeover_holds_for_what_was_found() -> None:
    taken: dict[str, Any] = build_takeover(build_claim("name", "new", "print", NOW), VERSION)
    held = taken["metadata"]
    assert (held["uid"], held["resourceVersion"]) == ("uid", "7")
    assert taken["spec"]["holderIdentity"] == "new"
    assert "serving.pumas.dev/answer" not in taken["metadata"]["annotations"]


@given(st.integers(100, 599), st.text())
def test_every_answer_is_read_as_it_was(status: int, body: str) -> None:
    lease = json.loads(json.dumps(answered(StoredAnswer(status, body))))
    read = read_request(lease)
    assert read == RequestLease("token", "print", NOW, KEPT_SECONDS, StoredAnswer(status, body))


def test_the_time_is_that_of_any_zone() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert build_claim("n", "t", "p", there) == build_claim("n", "t", "p", NOW)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "annotations"), None),
        (("metadata", "annotations", "serving.pumas.dev/fingerprint"), None),
        (("metadata", "annotations", "serving.pumas.dev/answer"), "nonsense"),
        (("metadata", "annotations", "serving.pumas.dev/answer"), "[]"),
        (("metadata", "annotations", "serving.pumas.dev/answer"), '{"status": 200}'),
        (("metadata", "annotations", "serving.pumas.dev/answer"), '{"status": 2, "body": ""}'),
        (("spec",), None),
        (("spec", "holderIdentity"), None),
        (("spec", "holderIdentity"), ""),
        (("spec", "leaseDurationSeconds"), None),
        (("spec", "leaseDurationSeconds"), 0),
        (("spec", "renewTime"), None),
        (("spec", "renewTime"), "yesterday"),
        (("spec", "renewTime"), "2030-01-01T12:00:00"),
    ],
)
def test_what_is_not_in_our_words_is_nothing(path: tuple[str, ...], value: object) -> None:
    lease = deepcopy(claimed())
    *above, last = path
    part = lease
    for step in above:
        part = part[step]
    if value is None:
        del part[last]
    else:
        part[last] = value
    assert read_request(lease) is None


@pytest.mark.parametrize(
    "body", [{}, {"metadata": None}, {"metadata": {"name": "n", "uid": "u"}}, {"kind": "Status"}]
)
def test_what_is_no_object_has_no_version(body: dict[str, Any]) -> None:
    assert read_version(body) is None


@given(st.text(), st.text())
def test_a_name_is_one_that_kubernetes_takes(principal: str, key: str) -> None:
    assert re.fullmatch(r"pumas-request-[0-9a-f]{32}", lease_name(principal, key))


@given(st.lists(st.tuples(st.text("ab"), st.text("ab")), unique=True, max_size=20))
def test_every_principals_key_has_a_name_of_its_own(pairs: list[tuple[str, str]]) -> None:
    assert len({lease_name(*pair) for pair in pairs}) == len(pairs)
