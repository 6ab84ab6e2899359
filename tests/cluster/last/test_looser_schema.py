"""Objects that only an older, looser definition let in. Run alone: it loosens the definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.cluster import Kubectl, soon
from support.models_server import HOST, ModelsServer
from support.release import LAB, Release, lab_profile, served_model
from support.serving_truth import condition

BOUND = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/drainSeconds/maximum"
TOO_LONG = {"spec": {"drainSeconds": 86_401}}
MENDED = {"spec": {"drainSeconds": 60}}
FAULT = "spec.drainSeconds: Input should be less than or equal to 86400."
INSPECTED = "The file was inspected and can be served."


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
    team: Kubectl, deployed: Release, models_server: ModelsServer
) -> None:
    home = deployed.kubectl
    profile = lab_profile([HOST])
    profile["metadata"]["name"] = name = f"loose-{team.namespace}"
    source = models_server.source("tiny-embed.gguf")
    spec = {"source": source, "replicas": 0}
    models = tuple(
        served_model(each, alias=f"{each}-{team.namespace}", profile=profile_name, **spec)
        for each, profile_name in (("model", LAB), ("profile", name))
    )

    def says(model: str, status: str, reason: Reason, text: str) -> None:
        def told() -> bool:
            found = condition(team, model, ConditionType.ACCEPTED)
            return (found["status"], found["reason"], found["message"]) == (status, reason, text)

        soon(told, f"{model}: {text}")

    home.apply(profile)
    team.apply(*models)
    try:
        for model in ("model", "profile"):
            soon(lambda model=model: team.get("sm", model).get("status"), f"a status of {model}")
            says(model, "True", Reason.ACCEPTED, INSPECTED)
        with unbounded("servedmodels"), unbounded("servingprofiles"):
            soon(lambda: patched(team, "sm/model", TOO_LONG), "the looser definition")
            soon(lambda: patched(home, f"servingprofile/{name}", TOO_LONG), "the other one")
            says("model", "False", Reason.INVALID_SPEC, FAULT)
        assert team.get("sm", "model")["status"]["loadState"] == "failed"
        unreadable = f"The ServingProfile {name} cannot be read: {FAULT}"
        says("profile", "False", Reason.INVALID_SPEC, unreadable)

        # The definitions are strict again, and what is mended fits them.
        soon(lambda: not patched(team, "sm/profile", TOO_LONG), "the strict definition")
        assert patched(team, "sm/model", MENDED)
        assert patched(home, f"servingprofile/{name}", MENDED)
        for model in ("model", "profile"):
            says(model, "True", Reason.ACCEPTED, INSPECTED)
    finally:
        home("delete", "servingprofile", name)


def patched(where: Kubectl, what: str, patch: dict[str, Any]) -> bool:
    """Whether the API server takes the change."""
    done = where.attempt("patch", what, "--type=merge", "--patch", json.dumps(patch))
    return done.returncode == 0
