"""A team's ServedModels in a test: applied in bulk, and every status that they ever had.

Statuses come by a watch, so that what is true for a moment only can be asserted too. When the test
is over, all that was ever told is searched for addresses and paths.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pumas_crds.vocabulary import API_VERSION, ConditionType, Reason
from support.cluster import Kubectl
from support.cluster_watch import Watch, watching
from support.release import Release, lab_profile, served_model

SECONDS = 120.0
#: A URL, an IP address, or an absolute path: nobody who reads a status has any use for them.
LEAK = re.compile(
    r"""\w+://|\b\d{1,3}(?:\.\d{1,3}){3}\b|\[[0-9a-f]*:[0-9a-f:.]*\]|(?:^|[\s"'(=:])/[\w.]"""
)

Text = str | re.Pattern[str]
Json = dict[str, Any]


@dataclass
class TeamModels:
    """The models of one namespace, and profiles that belong to the test alone."""

    team: Kubectl
    release: Release
    source_hosts: list[str]
    _watch: Watch
    _profiles: set[str] = field(default_factory=set)

    def body(self, name: str, **spec: Any) -> Json:
        """A model of the profile `lab`, under an alias that no other test has."""
        return served_model(name, **{"alias": f"{name}-{self.team.namespace}"} | spec)

    def patch(self, name: str, **spec: Any) -> None:
        """Change members of a spec; None removes one."""
        self.team("patch", "sm", name, "--type=merge", "--patch", json.dumps({"spec": spec}))

    def profile(self, name: str, **spec: Any) -> str:
        """Make or change a profile like `lab`; its name differs in every test."""
        profile = lab_profile(self.source_hosts)
        profile["metadata"]["name"] = full = f"{name}-{self.team.namespace}"
        profile["spec"] |= spec
        self._profiles.add(full)
        self.release.kubectl.apply(profile)
        return full

    def tells(
        self, name: str, kind: ConditionType, status: str, reason: Reason, text: Text,
        seconds: float = SECONDS,
    ) -> None:  # fmt: skip
        """Wait until the model's latest status says so of its present generation."""
        wanted = (kind, status, reason, text)
        self._await(name, lambda found: bool(found) and _says(found[-1], *wanted), wanted, seconds)

    def told(
        self, name: str, kind: ConditionType, status: str, reason: Reason, text: Text,
        seconds: float = SECONDS, since: int = 0,
    ) -> None:  # fmt: skip
        """Wait until some status has said so, be it long ago; of the first `since`, none counts."""
        wanted = (kind, status, reason, text)

        def holds(found: list[Json]) -> bool:
            return any(_says(body, *wanted) for body in found[since:])

        self._await(name, holds, wanted, seconds)

    def status(self, name: str) -> Json:
        """The latest."""
        told: Json = self.seen(name)[-1]["status"]
        return told

    def seen(self, name: str) -> list[Json]:
        """The model at each change so far, since it was last made."""
        found: list[Json] = []
        for _, kind, body in list(self._watch.came):
            if body["metadata"].get("name") == name:
                found = [] if kind == "DELETED" else [*found, body]
        return found

    def messages(self) -> set[str]:
        """All sentences that any status ever held."""
        return {text for _, _, body in self._watch.came for text in _sentences(body)}

    def remove_profiles(self) -> None:
        if self._profiles:
            self.release.kubectl("delete", "servingprofile", "--ignore-not-found", *self._profiles)

    def _await(self, name: str, holds: Any, wanted: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not holds(found := self.seen(name)):
            if time.monotonic() > deadline:
                latest = found[-1].get("status", {}) if found else {}
                told = json.dumps(latest.get("conditions"), indent=1)
                raise AssertionError(f"{name} does not say {wanted} within {seconds:g} s:\n{told}")
            time.sleep(0.1)


def _says(body: Json, kind: ConditionType, status: str, reason: Reason, text: Text) -> bool:
    for condition in body.get("status", {}).get("conditions", []):
        if condition["type"] == kind:
            message = condition["message"]
            same = message == text if isinstance(text, str) else bool(text.fullmatch(message))
            verdict = (condition["status"], condition["reason"]) == (status, reason)
            current = condition["observedGeneration"] == body["metadata"]["generation"]
            return same and verdict and current
    return False


def _sentences(body: Json) -> Iterator[str]:
    status = body.get("status", {})
    for told in (*status.get("conditions", []), status.get("error", {})):
        yield told.get("message", "")
    yield status.get("runtime", {}).get("modeReason", "")


@contextmanager
def team_models(team: Kubectl, release: Release, hosts: list[str]) -> Iterator[TeamModels]:
    """Follow the models of a namespace while the block lasts; then nothing of them may leak."""
    with watching(f"/apis/{API_VERSION}/namespaces/{team.namespace}/servedmodels") as watch:
        models = TeamModels(team, release, hosts, watch)
        try:
            yield models
        finally:
            models.remove_profiles()
        leaks = {text for text in models.messages() if LEAK.search(text)}
        assert not leaks, f"a status names an address or a path: {leaks}"
