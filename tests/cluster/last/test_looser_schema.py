"""Objects that only an older, looser definition let in. Run alone: it loosens the definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.cluster import Kubectl, soon
from support.models_server import ModelsServer
from support.team_models import TeamModels

ACCEPTED = ConditionType.ACCEPTED
BOUND = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/drainSeconds/maximum"
TOO_LONG = 86_401
FAULT = "spec.drainSeconds: Input should be less than or equal to 86400."


@contextmanager
def unbounded(plural: str) -> Iterator[None]:
    """The definition without the limit of `drainSeconds`."""
    definition = ("patch", "crd", f"{plural}.serving.pumas.dev", "--type=json", "--patch")
    Kubectl()(*definition, json.dumps([{"op": "remove", "path": BOUND}]))
    try:
        yield
    finally:
        Kubectl()(*definition, json.dumps([{"op": "add", "path": BOUND, "value": 86_400}]))


@pytest.mark.budget(150)
def test_what_cannot_be_read_is_said_with_its_field(
    models: TeamModels, models_server: ModelsServer
) -> None:
    team, source = models.team, models_server.source("tiny-embed.gguf")
    loose = models.body("loose", source=source, replicas=0, drainSeconds=TOO_LONG)
    profile = models.profile("loose")
    with unbounded("servedmodels"), unbounded("servingprofiles"):
        probe = ("create", "--dry-run=server", "--filename=-")
        soon(
            lambda: team.attempt(*probe, stdin=json.dumps(loose)).returncode == 0, "the definition"
        )
        team.apply(loose, models.body("profile", source=source, replicas=0, profile=profile))
        longer = json.dumps({"spec": {"drainSeconds": TOO_LONG}})
        patch = ("patch", "servingprofile", profile, "--type=merge", "--patch", longer)
        soon(lambda: models.release.kubectl.attempt(*patch).returncode == 0, "the other definition")
        models.tells("loose", ACCEPTED, "False", Reason.INVALID_SPEC, FAULT)
    assert models.status("loose")["loadState"] == "failed"
    sentence = f"The ServingProfile {profile} cannot be read: {FAULT}"
    models.tells("profile", ACCEPTED, "False", Reason.INVALID_SPEC, sentence)

    # The definition is strict again; both are mended.
    models.patch("loose", drainSeconds=60)
    models.profile("loose", drainSeconds=60)
    for name in ("loose", "profile"):
        inspected = "The file was inspected and can be served."
        models.tells(name, ACCEPTED, "True", Reason.ACCEPTED, inspected)
