"""The life of a model, whole: routers, operator and failures on one API server, in drawn histories.

Each history is at least forty things that happen, one after another, in virtual time; what must hold
is looked at after each, and at the end all faults heal and everything must settle. `make test-deep`
draws many more, and others every time.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from pumas_operator import reconcile
from pumas_server.router import workers
from support.lifecycle_history import DRAWS, live
from support.lifecycle_rules import RULES
from support.virtual_time import run_in_virtual_time

#: So many are what a normal run has time for; CI draws 500.
HISTORIES = int(os.environ.get("PUMAS_HISTORIES", "60"))
#: Set by `make test-deep`: other histories every time.
RANDOM = "PUMAS_RANDOM" in os.environ
STEPS = st.lists(st.integers(0, DRAWS - 1), min_size=40, max_size=50)
#: What must have been seen beside the rules themselves.
SEEN = {
    *(f"loadState {state}" for state in ("unloaded", "requested", "loading", "loaded", "unloading", "failed")),
    "router loads", "router unloads", "operator rests what is loaded",
    "a router died as it wrote", "the operator died as it wrote", "the truth was compared",
    "it serves with demand", "it rests without demand",
    "call answered", "call broken", "call left", "call lost", "call load failed", "call no model",
    "call waits, then answered", "call waits, then left", "call waits, then load failed",
    "call waits, then lost", "call waits, then timed out",
}  # fmt: skip
#: In one history of dozens: seen where there are hundreds of them, as in CI.
SELDOM = {"call waits, then stopped"}
HUNDREDS = 300
#: What takes a minute without anybody's help: seen where there are thousands of histories.
RARE = {"operator rests what is failed"}


def test_whatever_happens_nobody_waits_in_vain_is_lied_to_or_loses_a_model_in_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A pod that stays at its start for minutes is looked at some hundred times less.
    monkeypatch.setattr(workers, "STARTING_POD_SECONDS", 1.0)
    monkeypatch.setattr(reconcile, "STARTING_SECONDS", 6.0)
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    hits: Counter[str] = Counter()

    @settings(
        max_examples=HISTORIES,
        derandomize=not RANDOM,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(STEPS)
    def history(draws: list[int]) -> None:
        hits["histories"] += 1
        hits["steps"] += len(draws)
        story: list[str] = []
        try:
            run_in_virtual_time(live(draws, hits, story))
        except AssertionError:
            note("\n".join(story))
            raise

    history()
    with capsys.disabled():
        told = ", ".join(f"{name} {count}" for name, count in sorted(hits.items()))
        print(f"\n{told}", file=sys.stderr)
    expected = SEEN | (RARE if RANDOM else set()) | (SELDOM if HISTORIES >= HUNDREDS else set())
    expected |= {f"rule: {rule.name}" for rule in RULES}
    assert not (never := sorted(expected - hits.keys())), f"never seen: {never}"
