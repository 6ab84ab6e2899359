"""Permits and the byte budget: tried, never waited for, always given back."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.admission import Admission, BufferBudget


def test_a_process_admits_so_many() -> None:
    admission = Admission(2)
    with ExitStack() as held:
        held.enter_context(admission.process_permit("m", alone=True))
        held.enter_context(admission.process_permit("m", alone=True))
        with pytest.raises(ContractError) as refused, admission.process_permit("m", alone=True):
            pytest.fail("a third permit was given")
        assert refused.value.code is Code.CAPABILITY_UNAVAILABLE
        assert admission.in_flight == 2
    assert admission.in_flight == 0
    with admission.process_permit("m", alone=True):
        assert admission.in_flight == 1


def test_a_permit_comes_back_whatever_ended_the_call() -> None:
    admission = Admission(1)
    for error in (ValueError, KeyboardInterrupt, GeneratorExit):
        with pytest.raises(error), admission.process_permit("m", alone=True), admission.pod_permit("u"):
            raise error
        assert (admission.in_flight, admission.by_pod) == (0, {})


def test_pods_are_counted_apart() -> None:
    admission = Admission(10)
    with admission.pod_permit("a"), admission.pod_permit("a"), admission.pod_permit("b"):
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
