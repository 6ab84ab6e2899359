"""`make bench-cluster` in small: each figure may be five times its goal on a busy machine."""

from __future__ import annotations

import pytest

from support.cluster import Kubectl
from support.cluster_speed import apply_until_servable, operator_size, reactions, waking
from support.models_server import ModelsServer
from support.release import Release

TIMES = 5


@pytest.mark.own_cluster
@pytest.mark.budget(200)
def test_a_model_serves_soon_and_its_truth_is_told_at_once(
    deployed: Release, team: Kubectl, models_server: ModelsServer
) -> None:
    took = apply_until_servable(team, "tiny", models_server.source("tiny-chat.gguf"))
    assert took <= 15 * TIMES
    told = list(reactions(deployed, team, "tiny", 3))
    assert max(each.status_seconds for each in told) <= 2 * TIMES
    assert max(each.router_seconds for each in told) <= 1 * TIMES
    woken = waking(deployed, team, "sleeper", models_server.source("tiny-chat.gguf"))
    assert woken.start_seconds <= 4 * TIMES


@pytest.mark.own_cluster
@pytest.mark.budget(300)
def test_an_operator_with_many_models_stays_small_and_quiet(
    deployed: Release, team: Kubectl, models_server: ModelsServer
) -> None:
    size = operator_size(
        deployed, team, models_server.source("tiny-chat.gguf"), at_zero=40, running=1
    )
    assert size.restart_seconds <= 60 * TIMES
    assert size.memory_mebibytes <= 150
    assert size.idle_writes == 0
    assert size.idle_reads <= 30
