"""There is a bad input for each rule, and each is refused for its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.request import Operation, parse
from pumas_server.media.request_media import check, gather
from pumas_server.media.rules import LIMITS, Fault, Rule, check_bound
from support.bad_media import BAD, UNREACHABLE

CASES = [
    pytest.param(rule, build, id=f"{rule.name}: {name}")
    for rule, bad in BAD.items()
    for name, build in bad.items()
]


def operation(source: dict[str, Any]) -> Operation:
    return parse(
        {"contract_version": 1, "request_id": "r", "model": "m", "input": source, "output": "text"}
    )


def test_no_rule_is_without_a_bad_input() -> None:
    assert [rule for rule in Rule if rule not in BAD and rule not in UNREACHABLE] == []


@pytest.mark.parametrize(("rule", "build"), CASES)
def test_is_refused_for_its_own_rule(rule: Rule, build: Callable[[], dict[str, Any]]) -> None:
    asked = operation(build())
    with pytest.raises(ContractError) as caught:
        check(gather(asked), lambda: False)
    fault = caught.value.__cause__
    assert isinstance(fault, Fault)
    assert fault.rule is rule, fault
    assert caught.value.code is (Code.REQUEST_LIMIT if rule in LIMITS else Code.INVALID_REQUEST)
    assert "`input" in caught.value.message


@pytest.mark.parametrize("rule", sorted(LIMITS))
def test_a_bound_is_named_with_its_maximum_and_the_value(rule: Rule) -> None:
    check_bound(rule, 7, 7)
    with pytest.raises(Fault) as caught:
        check_bound(rule, 7, 8)
    refusal = caught.value.at("input.images[2]")
    assert refusal.code is Code.REQUEST_LIMIT
    assert refusal.message == f"`input.images[2]` is over `{rule}`: at most 7 are allowed, it has 8"


def test_what_breaks_another_rule_is_told_as_a_mismatch() -> None:
    refusal = Fault(Rule.AN_IMAGE, "holds no image").at("input")
    assert refusal.code is Code.INVALID_REQUEST
    assert refusal.message == "request does not match the contract: `input` holds no image"
