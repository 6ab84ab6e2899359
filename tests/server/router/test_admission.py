"""Permits and the byte budget: tried, never waited for, always given back, and shared fairly."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, ExitStack, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.admission import (
    RESERVED_PART,
    SMALL_BYTES,
    Admission,
    BufferBudget,
    BufferLease,
    refuse_permit,
)
from pumas_server.router.refusals import Reason
from support.permits import pod_permit, process_permit


def test_a_process_admits_so_many() -> None:
    admission = Admission(2)
    with ExitStack() as held:
        held.enter_context(process_permit(admission, "m", alone=True))
        held.enter_context(process_permit(admission, "m", alone=True))
        with pytest.raises(ContractError) as refused, process_permit(admission, "m", alone=True):
            pytest.fail("a third permit was given")
        assert refused.value.code is Code.CAPABILITY_UNAVAILABLE
        assert admission.in_flight == 2
    assert admission.in_flight == 0
    with process_permit(admission, "m", alone=True):
        assert admission.in_flight == 1


def test_a_permit_comes_back_whatever_ended_the_call() -> None:
    admission = Admission(1)
    for error in (ValueError, KeyboardInterrupt, GeneratorExit):
        with (
            pytest.raises(error),
            process_permit(admission, "m", alone=True),
            pod_permit(admission, "u"),
        ):
            raise error
        assert (admission.in_flight, admission.by_pod) == (0, {})


def test_pods_are_counted_apart() -> None:
    admission = Admission(10)
    with pod_permit(admission, "a"), pod_permit(admission, "a"), pod_permit(admission, "b"):
        assert admission.by_pod == {"a": 2, "b": 1}
        assert not admission.has_pod_permit("a", 2)
        assert admission.has_pod_permit("a", 3)
        assert admission.has_pod_permit("b", 2)
        assert admission.has_pod_permit("c", 1)
        assert not admission.has_pod_permit("c", 0)
    assert admission.by_pod == {}


def test_a_budget_is_given_back_whole() -> None:
    budget = BufferBudget(100)
    with budget.lease() as one, budget.lease() as other:
        assert one.grow(60)
        assert other.grow(40)
        assert not one.grow(1)
        assert one.grow(0)
        assert budget.held == 100
    assert budget.held == 0
    with pytest.raises(RuntimeError), budget.lease() as lease:
        assert lease.grow(100)
        raise RuntimeError
    assert budget.held == 0


@given(st.lists(st.integers(1, 5_000_000), max_size=40))
def test_long_bodies_leave_room_for_short_ones(counts: list[int]) -> None:
    """However they come, and as many as there are; what is over is theirs while they are short."""
    budget = BufferBudget(32 * SMALL_BYTES)
    leases = [BufferLease(budget) for _ in range(4)]
    for index, count in enumerate(counts):
        leases[index % 4].grow(SMALL_BYTES + count)
    reserve = budget.limit // RESERVED_PART
    assert budget.held <= budget.limit - reserve
    with budget.lease() as short:
        assert short.grow(SMALL_BYTES)


def test_a_lease_may_give_back_early() -> None:
    budget = BufferBudget(100)
    with budget.lease() as lease:
        assert lease.grow(100)
        lease.shrink(70)
        assert (budget.held, lease.held) == (30, 30)
        with budget.lease() as other:
            assert other.grow(70)
    assert budget.held == 0


def test_what_a_budget_refuses_is_counted() -> None:
    budget = BufferBudget(1)
    with budget.lease() as lease:
        assert not lease.grow(2)
        error = lease.refusal(Code.RESPONSE_LIMIT)
    assert error.code is Code.RESPONSE_LIMIT
    assert budget.refusals.counts[Reason.BUFFER] == 1


def fill(admission: Admission, model: str, held: ExitStack, *, alone: bool = False) -> int:
    """How many calls of a model are admitted, of more than there are permits."""
    admitted = 0
    with suppress(ContractError):
        for _ in range(admission.max_in_flight + 1):
            held.enter_context(process_permit(admission, model, alone=alone))
            admitted += 1
    return admitted


def test_a_model_that_is_alone_may_have_all() -> None:
    admission = Admission(1024, 0.5)
    with ExitStack() as held:
        assert fill(admission, "a", held, alone=True) == 1024
        assert admission.refusals.counts[Reason.MAX_IN_FLIGHT] == 1
        assert admission.refusals.counts[Reason.MODEL_SHARE] == 0


def test_hung_models_end_at_their_shares() -> None:
    admission = Admission(1024, 0.5)
    with ExitStack() as held:
        assert [fill(admission, m, held) for m in "abcdefghij"] == [
            *(512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
        ]
        assert admission.refusals.counts[Reason.MODEL_SHARE] == 10
        # The eleventh hung model has the last one.
        assert fill(admission, "k", held) == 1
        assert admission.refusals.counts[Reason.MAX_IN_FLIGHT] == 1
    assert (admission.in_flight, admission.by_model) == (0, {})


def test_the_sentence_names_the_limit() -> None:
    admission = Admission(10, 0.5)
    with ExitStack() as held:
        fill(admission, "a", held)
        with (
            pytest.raises(ContractError, match="the model has 5 of the 10 calls"),
            process_permit(admission, "a", alone=False),
        ):
            pytest.fail("more than its share")


SHARES = st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9, 1.0])


@given(st.integers(2, 5000), SHARES, st.integers(0, 5000))
def test_a_hung_model_leaves_the_others_room(most: int, share: float, callers: int) -> None:
    """However many callers it has: then another's calls are admitted at once, up to its share."""
    hung = 0
    for _ in range(callers):
        if refuse_permit(hung, most - hung, share, alone=False) is not None:
            break
        hung += 1
    free = most - hung
    assert free >= most - math.ceil(share * most)
    if free:
        assert refuse_permit(0, free, share, alone=False) is None


@given(st.integers(0, 5000), st.integers(-1, 5000), SHARES)
def test_a_refusal_is_for_a_cause(held: int, free: int, share: float) -> None:
    assert (refuse_permit(held, free, share, alone=True) is None) is (free > 0)
    match refuse_permit(held, free, share, alone=False):
        case None:
            assert free > 0
            # Whoever holds less is admitted too.
            assert held == 0 or refuse_permit(held - 1, free, share, alone=False) is None
        case reason:
            assert (reason is Reason.MAX_IN_FLIGHT) is (free <= 0)
            assert reason is Reason.MAX_IN_FLIGHT or held > 0


class Sharing(RuleBasedStateMachine):
    """Two models at one router: one hangs with any number of callers, the other has a few calls."""

    MOST = 40
    FEW = 10
    """Calls that the other has at once: the share of what the hung one leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.admission = Admission(self.MOST, 0.5)
        self.calls: dict[str, list[AbstractContextManager[None]]] = {"hung": [], "good": []}

    def call(self, model: str) -> bool:
        permit = process_permit(self.admission, model, alone=False)
        try:
            permit.__enter__()
        except ContractError:
            return False
        self.calls[model].append(permit)
        return True

    @rule(callers=st.integers(1, 60))
    def hang(self, callers: int) -> None:
        for _ in range(callers):
            self.call("hung")

    @rule()
    @precondition(lambda self: self.calls["hung"])
    def a_hung_caller_leaves(self) -> None:
        self.calls["hung"].pop().__exit__(None, None, None)

    @rule()
    @precondition(lambda self: len(self.calls["good"]) < self.FEW)
    def a_good_call_is_admitted_at_once(self) -> None:
        assert self.call("good")

    @rule()
    @precondition(lambda self: self.calls["good"])
    def a_good_call_ends(self) -> None:
        self.calls["good"].pop(0).__exit__(None, None, None)

    @invariant()
    def what_is_borrowed_is_counted(self) -> None:
        held = {model: len(calls) for model, calls in self.calls.items() if calls}
        assert self.admission.by_model == held
        assert self.admission.in_flight == sum(held.values()) <= self.MOST
        assert held.get("hung", 0) <= self.MOST / 2


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
