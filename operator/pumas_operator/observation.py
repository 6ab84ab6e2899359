"""What is observed of a model's pods, Deployment and inspection: the input of `status`.

In a cluster `pod_truth` makes these values from Kubernetes' objects; in local mode the kubelet
does from its processes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumas_crds.facts import Fault, Inspection, PodDescriptor
from pumas_crds.vocabulary import Reason


@dataclass(frozen=True, slots=True)
class PodObservation:
    """One serving pod as its kubelet sees it."""

    uid: str
    current: bool = True
    """Whether it was made from this generation's template."""
    waiting: Reason | None = None
    """Why it does not run, when its own programs are not the reason: `Unschedulable`…"""
    message: str = ""
    """The scheduler's or kubelet's own sentence about `waiting`, or about a failed fetch."""
    inspection: Inspection | None = None
    """What its init container reported of the file."""
    fetch_failed: bool = False
    """Whether the init container's last run failed."""
    ready: bool = False
    terminating: bool = False
    engine_fault: Fault | None = None
    """Why the serving container's last run ended; kept until it is ready again."""
    restarts: int = 0
    descriptor: PodDescriptor | None = None
    """What the pod says of itself, if it was asked and answered."""


@dataclass(frozen=True, slots=True)
class InspectionObservation:
    """The Job that inspects the model's file, as far as it has come."""

    result: Inspection | None = None
    """Its verdict."""
    fault: Fault | None = None
    """Why its pod does not run, or ended without a verdict."""


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a model's status depends on, beside its spec and its previous status."""

    profile_found: bool = True
    home: str = ""
    """The namespace that profiles are looked for in; empty on one machine."""
    duplicate: bool = False
    """Whether another model has this alias and profile and comes first."""
    refused: Fault | None = None
    """A refusal that no file can mend, see `acceptance`."""
    foreign: str = ""
    """Kind and name of an object that has a child's name and is not ours; we never adopt it."""
    desired_replicas: int | None = None
    """Pods that are wanted; None: as many as the spec says."""
    pods: tuple[PodObservation, ...] = ()
    """Oldest first."""
    workload_fault: Fault | None = None
    """Why pods that are wanted are not made: a quota, an admission policy, a refused child."""
    inspection: InspectionObservation | None = None
    """None: no Job is there."""
    inspection_hash: str = ""
    """Which inspection the spec needs. Empty: pods alone inspect, as in local mode."""
    load_request: str = ""
    """The explicit load request that the inspection answers to."""
    spec_hash: str = ""
    """Which pod template is wanted; empty when none can be built."""
    external: bool = False
    """A server that is not ours answers: there are no pods, and only routers see if it does."""

    @property
    def live(self) -> tuple[PodObservation, ...]:
        """Pods that are not on their way out."""
        return tuple(pod for pod in self.pods if not pod.terminating)

    @property
    def serving(self) -> int:
        """How many pods answer now, of whatever generation."""
        return sum(pod.ready for pod in self.live)

    @property
    def rolled_out(self) -> int:
        """How many pods of this generation answer now."""
        return sum(pod.ready and pod.current for pod in self.live)
