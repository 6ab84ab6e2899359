"""An operator that starts finds everything told already. Run alone: it restarts the operator."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.models_server import NOT_A_MODEL, ModelsServer
from support.team_models import TeamModels


@pytest.mark.budget(150)
def test_nothing_is_told_twice(models: TeamModels, models_server: ModelsServer) -> None:
    team, names = models.team, ("serves", "rests", "fails")
    source = models_server.source("tiny-embed.gguf")
    team.apply(
        models.body("serves", source=source),
        models.body("rests", source=source, replicas=0),
        models.body("fails", source=models_server.source(NOT_A_MODEL)),
    )
    accepted, inspected = ConditionType.ACCEPTED, "The file was inspected and can be served."
    not_a_model = f"{NOT_A_MODEL}: the file does not begin as a GGUF file does"
    serving = "1 of 1 pods answer."
    models.tells("serves", ConditionType.SERVABLE, "True", Reason.AVAILABLE, serving)
    models.tells("rests", accepted, "True", Reason.ACCEPTED, inspected)
    models.tells("fails", accepted, "False", Reason.NOT_A_MODEL, not_a_model)
    before = told(models)

    operator = f"deployment/{models.release.operator}"
    models.release.kubectl("rollout", "restart", operator)
    models.release.wait()
    for name in names:
        models.patch(name, catalogue={"displayName": "Another generation"})
    models.tells("serves", ConditionType.SERVABLE, "True", Reason.AVAILABLE, serving)
    models.tells("rests", accepted, "True", Reason.ACCEPTED, inspected)
    models.tells("fails", accepted, "False", Reason.NOT_A_MODEL, not_a_model)
    assert told(models) == before


def told(models: TeamModels) -> tuple[set[str], Any]:
    """The names of all Events, and every verdict with the moment since which it holds."""
    since = {
        (name, each["type"]): (each["status"], each["reason"], each["lastTransitionTime"])
        for name in ("serves", "rests", "fails")
        for each in models.status(name)["conditions"]
    }
    about = "--field-selector=involvedObject.kind=ServedModel"
    events = {each["metadata"]["name"] for each in models.team.get("events", about)["items"]}
    return events, since
