"""Serving pods as their kubelet runs them: what they do, what their objects and supervisors say."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pumas_crds.facts import Fault, PodDescriptor, PodState, RuntimeFacts
from pumas_crds.vocabulary import EngineMode, Reason
from support.kubernetes import RUNNING, condition, container, pod, terminated, waiting

FILE: dict[str, Any] = {"architecture": "llama", "sizeBytes": 1000}
NO_MODEL: dict[str, Any] = {"reason": "NotAModel", "message": "The file is no model."}
#: How long a pod that is asked to end still takes calls, and at the most works on them.
PROPAGATION_SECONDS, DRAIN_SECONDS = 5.0, 30.0


class Phase(Enum):
    """What a pod is doing."""

    STARTING = "starting"
    READY = "ready"
    OOM = "out of memory"
    IMAGE = "no image"
    ENGINE = "engine failed"
    REFUSED = "file refused"


#: Phases in which a pod's supervisor answers.
_TALKS = {
    Phase.STARTING: PodState.STARTING,
    Phase.READY: PodState.READY,
    Phase.ENGINE: PodState.FAILED,
}


@dataclass(eq=False)
class ServingPod:
    """One pod."""

    name: str
    address: str
    template: dict[str, Any]
    deployment: str
    """Its uid."""
    created: str
    born: float
    phase: Phase = Phase.STARTING
    since: float = 0.0
    """When it last became something else."""
    ends_at: float | None = None
    """When it was asked to end."""
    boots: int = 1
    gone: bool = False
    calls: dict[object, float] = field(default_factory=dict)
    """Calls that are open on it, each with when it began."""

    @property
    def uid(self) -> str:
        """As its object says it."""
        return f"uid-of-{self.name}"

    @property
    def model_uid(self) -> str:
        """Whose it is."""
        uid: str = self.template["labels"]["serving.pumas.dev/model-uid"]
        return uid

    @property
    def ready(self) -> bool:
        """Whether calls are to be sent to it."""
        return self.phase is Phase.READY and self.ends_at is None and not self.gone

    @property
    def takes_calls(self) -> bool:
        """Whether one who connects is answered."""
        now = asyncio.get_running_loop().time()
        closing = self.ends_at is not None and now - self.ends_at > PROPAGATION_SECONDS
        return self.phase is Phase.READY and not closing and not self.gone

    def become(self, phase: Phase) -> None:
        """Something else; its open calls break when its engine ends."""
        if phase is not self.phase:
            self.since = asyncio.get_running_loop().time()
            self.boots += (
                phase in (Phase.STARTING, Phase.READY) and self.phase is not Phase.STARTING
            )
        self.phase = phase

    def describe(self) -> PodDescriptor | None:
        """What its supervisor answers."""
        state = _TALKS.get(self.phase)
        if state is None or self.gone:
            return None
        if self.ends_at is not None:
            state = PodState.DRAINING
        failed = state is PodState.FAILED
        return PodDescriptor(
            state=state,
            boot_id=f"boot-{self.boots}",
            busy=len(self.calls),
            mode=EngineMode.GENERATE,
            runtime=RuntimeFacts(slots=1, input_modalities=("text",), output_modalities=("text",)),
            error=Fault(reason=Reason.ENGINE_FAILED, message="The engine ended.")
            if failed
            else None,
        )

    def render(self) -> dict[str, Any]:
        """Its object."""
        told: dict[str, Any] = (
            {"error": NO_MODEL} if self.phase is Phase.REFUSED else {"file": FILE}
        )
        fetch = container("fetch", terminated(self.phase is Phase.REFUSED, json.dumps(told)))
        body = pod(
            self.name,
            fetch=fetch,
            server=self._server(),
            conditions=[condition("Ready", "True" if self.phase is Phase.READY else "False")],
            created=self.created,
            podIP=self.address,
        )
        body["metadata"] |= {
            "namespace": "team",
            "labels": self.template["labels"],
            "annotations": self.template["annotations"],
            "ownerReferences": [{"kind": "ReplicaSet", "uid": self.deployment}],
        }
        if self.ends_at is not None:
            body["metadata"]["deletionTimestamp"] = self.created
        return body

    def _server(self) -> dict[str, Any]:
        match self.phase:
            case Phase.STARTING | Phase.READY | Phase.ENGINE:
                return container("server", RUNNING)
            case Phase.OOM:
                end = terminated(137, reason="OOMKilled")
                return container("server", waiting("CrashLoopBackOff"), end, restarts=1)
            case Phase.IMAGE:
                return container("server", waiting("ImagePullBackOff", "no such image"))
            case Phase.REFUSED:
                return container("server", waiting("PodInitializing"))

    def entry(self) -> dict[str, Any]:
        """Its place in the slice."""
        return {
            "addresses": [self.address],
            "targetRef": {"kind": "Pod", "name": self.name, "uid": self.uid},
            "conditions": {"ready": self.ready, "terminating": self.ends_at is not None},
        }
