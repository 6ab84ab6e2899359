"""The fuzzer itself: a short run of it finds nothing, and it does find what is wrong."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from fuzz import fuzz_media
from fuzz.fuzz_media import Checker, build_checkers
from pumas_server.media.rules import Fault, Rule
from support.mutations import mutate

CHECKERS = build_checkers()


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: checker.name)
def test_a_short_run_finds_nothing(checker: Checker) -> None:
    random = Random(1)
    for seed in checker.seeds:
        checker.throw(seed)
    for _ in range(300):
        checker.throw(mutate(random, random.choice(checker.seeds), checker.seeds))
    assert checker.findings == []
    assert 0 < checker.taken < checker.executions


def test_any_other_exception_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_media, "KEPT", tmp_path)

    def target(file: bytes) -> None:
        if file == b"a":
            raise Fault(Rule.AN_IMAGE, "is refused as it should be")
        raise IndexError(file)

    checker = Checker("some", target, [b"a"])
    checker.throw(b"a")
    assert checker.findings == []
    checker.throw(b"b")
    assert "IndexError" in checker.findings[0]
    assert [kept.read_bytes() for kept in tmp_path.iterdir()] == [b"b"]


def test_too_slow_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_media, "KEPT", tmp_path)
    monkeypatch.setattr(fuzz_media, "SLOW", -1.0)
    checker = Checker("some", lambda file: None, [b"a"])
    checker.throw(b"a")
    assert checker.findings[0].startswith("took 0.0 s")
