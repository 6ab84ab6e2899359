"""An intake and what it told: whom an event concerns, and whose memory ends."""

from __future__ import annotations

from typing import Any

from pumas_crds.vocabulary import MODEL_NAME_ANNOTATION
from pumas_operator.intake import Intake
from pumas_operator.kinds import SERVED_MODEL, Kind
from pumas_operator.objects import Objects, key_of, uid_of

TEAM, HOME = "team", "pumas-system"


class Heard:
    """An intake, and all that it told since the last look."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.forgotten: list[str] = []
        self.relistings: list[bool] = []
        self._concerned: set[str] = set()
        self.intake = Intake(
            self.objects,
            lambda key: self._concerned.add("/".join(key)),
            lambda uid: self.forgotten.append(f"model {uid}"),
            lambda uid: self.forgotten.append(f"pod {uid}"),
            lambda: self.relistings.append(True),
        )

    def concerned(self) -> set[str]:
        """Namespaces and names of models, since the last time."""
        told, self._concerned = self._concerned, set()
        return told

    def knowing(self, *models: dict[str, Any]) -> None:
        """These models came, and nobody looked."""
        for body in models:
            self.intake.seen(SERVED_MODEL, body)
        self.concerned()

    def uids(self, kind: Kind) -> dict[str, str]:
        """The uids of all that is held of a kind, by name."""
        return {key_of(body).name: uid_of(body) for body in self.objects.all(kind)}


def at(version: int, body: dict[str, Any]) -> dict[str, Any]:
    """The same object at another version."""
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def child(name: str = "child", uid: str = "u", version: int = 1, **told: Any) -> dict[str, Any]:
    """Any child of the model `a.long.name`."""
    metadata = {"name": name, "namespace": TEAM, "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata | {"annotations": {MODEL_NAME_ANNOTATION: "a.long.name"}} | told}


def profile(name: str, version: int = 1) -> dict[str, Any]:
    metadata = {"name": name, "namespace": HOME, "uid": f"uid-{name}"}
    return {"metadata": metadata | {"resourceVersion": str(version)}}
