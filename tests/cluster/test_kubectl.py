"""What a person sees with kubectl: columns, waiting, scaling, explanations, Events."""

from __future__ import annotations

import re

import pytest
import yaml

from pumas_crds.vocabulary import ConditionType, Reason
from support.cluster import ROOT, Kubectl, soon
from support.models_server import ModelsServer
from support.team_models import Json, TeamModels

PROGRESSING, SERVABLE = ConditionType.PROGRESSING, ConditionType.SERVABLE


def row(team: Kubectl, *arguments: str) -> dict[str, str]:
    """The only model as a table shows it, by the heads of the columns."""
    head, line = team("get", "sm", *arguments).splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", head)]
    ends = [*starts[1:], None]
    return {
        head[start:end].strip(): line[start:end].strip()
        for start, end in zip(starts, ends, strict=True)
    }


def events(team: Kubectl) -> list[Json]:
    """Those of models, in no order."""
    found: list[Json] = team.get("events", "--field-selector=involvedObject.kind=ServedModel")[
        "items"
    ]
    return found


def changes(models: TeamModels, name: str) -> list[tuple[str, str]]:
    """Reason and text of each change of a condition that is worth an Event, sorted."""
    known: dict[str, tuple[str, str]] = {}
    told = []
    for body in models.seen(name):
        for condition in body.get("status", {}).get("conditions", []):
            kind, verdict = condition["type"], (condition["status"], condition["reason"])
            begins = kind not in known and condition["reason"] == Reason.NO_ENDPOINT
            if kind != ConditionType.READY and known.get(kind) != verdict and not begins:
                text = f"{kind} is {condition['status']}: {condition['message']}"
                told.append((condition["reason"], text))
            known[kind] = verdict
    return sorted(told)


@pytest.mark.budget(180)
def test_a_life_in_tables_and_events(models: TeamModels, models_server: ModelsServer) -> None:
    team = models.team
    models.team.apply(models.body("seen", source=models_server.source("tiny-embed.gguf")))
    team("wait", "--for=condition=Servable", "sm/seen", "--timeout=120s")
    team("wait", "--for=condition=Ready=True", "sm/seen", "--timeout=10s")
    plain = {
        "NAME": "seen",
        "ALIAS": f"seen-{team.namespace}",
        "PROFILE": "lab",
        "RUNTIME": "llama.cpp",
        "STATE": "loaded",
        "SERVABLE": "True",
        "REPLICAS": "1",
    }
    shown = row(team)
    assert re.fullmatch(r"\d+(m\d+)?s?", shown.pop("AGE"))
    assert shown == plain
    soon(lambda: "runtime" in models.status("seen"), "what the engine says of itself")
    wide = row(team, "--output=wide")
    assert {head: wide[head] for head in ("DEVICE", "CONTEXT", "REASON")} == {
        "DEVICE": "cpu",
        "CONTEXT": "512",
        "REASON": "RolledOut",
    }
    team("scale", "sm/seen", "--replicas=2")
    models.tells("seen", SERVABLE, "True", Reason.AVAILABLE, "2 of 2 pods answer.")
    assert row(team)["REPLICAS"] == "2"
    selector = models.status("seen")["selector"]
    assert len(team.get("pods", f"--selector={selector}")["items"]) == 2
    team("scale", "sm/seen", "--replicas=0")
    team("wait", "--for=jsonpath={.status.loadState}=unloaded", "sm/seen", "--timeout=60s")
    assert (
        row(team, "--output=wide").items()
        >= {
            "STATE": "unloaded",
            "SERVABLE": "False",
            "REPLICAS": "0",
            "DEVICE": "cpu",
            "REASON": "ScaledToZero",
        }.items()
    )

    def told() -> list[tuple[str, str]]:
        return sorted((each["reason"], each["message"]) for each in events(team))

    soon(lambda: told() == changes(models, "seen"), "one Event for each change", 10)
    before = told()
    # Another generation, in which nothing is new.
    models.patch("seen", catalogue={"displayName": "Seen"})
    models.tells("seen", PROGRESSING, "False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    assert told() == before
    assert {each["count"] for each in events(team)} == {1}
    described = team("describe", "sm", "seen")
    assert re.search(
        r"Normal +Available +\S+ +pumas-operator +Servable is True: 1 of 1 pods answer\.", described
    )


def test_every_field_explains_itself(models: TeamModels) -> None:
    for part in ("spec", "status"):
        said = " ".join(models.team("explain", f"sm.{part}").split())
        for name, field in schema()["properties"][part]["properties"].items():
            assert re.search(rf" {name} <\S", said), name
            assert " ".join(field["description"].split()) in said, name
    revision = models.team("explain", "sm.spec.source.huggingFace.revision")
    assert "A commit of 40 hexadecimal digits" in revision
    assert "Observations, each with a reason." in models.team("explain", "sm.status.conditions")
    selector = models.team("explain", "servingprofile.spec.nodeSelector")
    assert "Labels that a node must have." in selector


def schema() -> Json:
    definition = yaml.safe_load((ROOT / "crds" / "servedmodels.yaml").read_text("utf-8"))
    found: Json = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found
