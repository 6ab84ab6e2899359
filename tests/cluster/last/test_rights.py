"""The audit log of the whole run: each rule of each role was used, and no request was denied.

Run behind all others but those that take the release away.
"""

from __future__ import annotations

import pytest

from support import audit_log
from support.release import Release
from support.roles import OPERATOR, OPERATOR_AT_HOME, ROUTER, ROUTER_AT_HOME

GRANTED = {"operator": OPERATOR | OPERATOR_AT_HOME, "router": ROUTER | ROUTER_AT_HOME}


@pytest.mark.own_cluster
@pytest.mark.parametrize("part", GRANTED)
def test_every_right_is_used(deployed: Release, part: str) -> None:
    told = audit_log.asked(f"{deployed.namespace}:{deployed.fullname}-{part}")
    # Without a resource it is a question of what the API offers, which everybody may ask.
    used = {each.grant for each in told if each.code < 400 and each.resource}
    assert used == {
        (group, resource, verb)
        for group, resource, verbs in GRANTED[part]
        for verb in verbs.split()
    }


@pytest.mark.own_cluster
@pytest.mark.parametrize("part", [*GRANTED, "profiles"])
def test_no_right_is_missing(deployed: Release, part: str) -> None:
    told = list(audit_log.asked(f"{deployed.namespace}:{deployed.fullname}-{part}"))
    assert told
    assert [each for each in told if not each.allowed] == []
