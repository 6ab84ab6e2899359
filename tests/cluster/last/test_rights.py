"""The audit log of the whole run: each rule of each role was used, and no request was denied.

Run behind all others but those that take the release away.
"""

from __future__ import annotations

import pytest

from support.audit_log import asked
from support.release import Release
from support.roles import OPERATOR, OPERATOR_AT_HOME, PROFILES, ROUTER, Grants

GRANTED = {"operator": OPERATOR | OPERATOR_AT_HOME, "router": ROUTER, "profiles": PROFILES}


@pytest.mark.own_cluster
@pytest.mark.parametrize("part", GRANTED)
def test_every_right_is_used_and_none_is_missing(deployed: Release, part: str) -> None:
    told = list(asked(f"{deployed.namespace}:{deployed.fullname}-{part}"))
    assert [each for each in told if not each.allowed] == []
    used = {each.grant for each in told if each.code < 400}
    assert _each(GRANTED[part]) == used


def _each(grants: Grants) -> set[tuple[str, str, str]]:
    return {(group, resource, verb) for group, resource, verbs in grants for verb in verbs.split()}
