"""What has to be done for one model, from what the cluster holds of it. Pure.

The plan is what is wanted, and what is observed before any of it is done. Carrying it out is
`applying`'s, and what comes of that (a refusal, a foreign object) joins the observation there.

A refused spec or file changes nothing of what serves: the old pods go on. Two wishes need no
verdict on a file and are always met: fewer pods, and no model of ours at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pumas_crds.facts import Fault, PodDescriptor
from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import INSPECTOR_NAME, NAME_LABEL, SPEC_HASH_ANNOTATION
from pumas_operator.acceptance import build_refusal
from pumas_operator.children import build_children
from pumas_operator.file_verdict import inspection_due, select_load_request, select_verdict
from pumas_operator.inspection_job import build_inspection_job, inspection_hash
from pumas_operator.json_object import Json, member, text, whole
from pumas_operator.kinds import DEPLOYMENT, JOB, Kind
from pumas_operator.labels import Object
from pumas_operator.manifests import Settings, spec_hash
from pumas_operator.objects import is_going, key_of, owners_of, uid_of
from pumas_operator.observation import InspectionObservation, Observed, PodObservation
from pumas_operator.pod_truth import observe_pods
from pumas_operator.workload_truth import has_run, observe_inspection, observe_workload


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the cluster holds of one model."""

    model: ServedModel
    profile: ServingProfile | None = None
    profile_fault: Fault | None = None
    """Why the profile that is there cannot be read."""
    duplicate: bool = False
    children: Mapping[Kind, Json] = field(default_factory=dict)
    """Those that are there and ours, but for Jobs."""
    jobs: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()
    descriptors: Mapping[str, PodDescriptor] = field(default_factory=dict)
    """What pods say of themselves, by their uids."""
    stalled: Mapping[str, Fault] = field(default_factory=dict)
    """Why Jobs make no pods and pods do not start, where only Events tell, by their uids."""
    load_request: str = ""
    """The last explicit request to load the model, as its Lease of demand tells."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in this order."""

    observed: Observed
    obsolete: tuple[tuple[Kind, Json], ...] = ()
    """To be deleted."""
    job: Object | None = None
    """To be made."""
    children: tuple[Object, ...] = ()
    """To be made so."""
    shrink: tuple[Json, int] | None = None
    """A workload, and to how many pods it is to shrink; nothing else of it changes."""


def build_plan(snapshot: Snapshot, settings: Settings, engine_key: str) -> Plan:
    """The plan for a model that could be read."""
    model, profile = snapshot.model, snapshot.profile
    refusal = snapshot.profile_fault
    if profile is not None:
        refusal = build_refusal(model.spec, profile, local=False)
    observed = Observed(
        profile_found=profile is not None or refusal is not None,
        home=settings.namespace,
        duplicate=snapshot.duplicate,
        refused=refusal,
        external=model.spec.endpoint is not None,
    )
    if observed.external or snapshot.duplicate:
        return _without_workload(snapshot, observed)
    heeded = select_load_request(model, snapshot.load_request)
    observed = replace(observed, load_request=heeded)
    wanted = inspection_hash(model, heeded)
    if profile is None or refusal is not None:
        return _shrunk(snapshot, _look(snapshot, replace(observed, inspection_hash=wanted), None))
    children = build_children(model, profile, settings, engine_key)
    digest = _digest(children[-1])
    job = build_inspection_job(model, profile, settings, heeded)
    looked_at = replace(observed, inspection_hash=wanted, spec_hash=digest)
    looked_at = _look(snapshot, looked_at, job)
    verdict = select_verdict(model, looked_at)
    stale = tuple((JOB, each) for each in snapshot.jobs if _superseded(each, job))
    if verdict.file is None or verdict.error is not None:
        due = job if inspection_due(model, looked_at) else None
        return replace(_shrunk(snapshot, looked_at), obsolete=stale, job=due)
    return Plan(looked_at, stale, children=children)


def _without_workload(snapshot: Snapshot, observed: Observed) -> Plan:
    """Nothing of ours serves the model; what did goes."""
    asked = snapshot.model.spec.model_dump(mode="json", by_alias=True)
    children = tuple(snapshot.children.items())
    jobs = tuple((JOB, job) for job in snapshot.jobs)
    digest = spec_hash(asked)
    pods = observe_pods(_serving(snapshot), digest)
    return Plan(replace(observed, spec_hash=digest, pods=pods), (*children, *jobs))


def _look(snapshot: Snapshot, observed: Observed, job: Object | None) -> Observed:
    """The observation of pods, workload and inspection."""
    digest = observed.spec_hash or snapshot.model.status.spec_hash
    pods = tuple(_told(pod, snapshot) for pod in observe_pods(_serving(snapshot), digest))
    deployment = snapshot.children.get(DEPLOYMENT)
    return replace(
        observed,
        spec_hash=digest,
        pods=pods,
        inspection=None if job is None else _inspection(snapshot, job),
        workload_fault=None if deployment is None else observe_workload(deployment),
    )


def _told(pod: PodObservation, snapshot: Snapshot) -> PodObservation:
    """The observation with what the pod says itself, and what only Events say of it."""
    told = replace(pod, descriptor=snapshot.descriptors.get(pod.uid))
    stall = snapshot.stalled.get(pod.uid)
    if stall is None or pod.waiting not in (None, stall.reason):
        return told
    return replace(told, waiting=stall.reason, message=stall.message)


def _inspection(snapshot: Snapshot, wanted: Object) -> InspectionObservation | None:
    """What the wanted inspection has found, if its Job is there."""
    for job in snapshot.jobs:
        if key_of(job) == key_of(wanted) and not _superseded(job, wanted):
            uid = uid_of(job)
            pods = [pod for pod in snapshot.pods if uid in owners_of(pod)]
            found = observe_inspection(job, pods)
            if found.result is not None:
                return found
            told = (snapshot.stalled.get(each) for each in (uid, *map(uid_of, pods)))
            stall = next(filter(None, told), None)
            known = found.fault
            if stall is None or (known is not None and known.reason is not stall.reason):
                return found
            return InspectionObservation(fault=stall)
    return None


def _shrunk(snapshot: Snapshot, observed: Observed) -> Plan:
    """Nothing new is rolled out, but what is there never has more pods than are wanted."""
    deployment = snapshot.children.get(DEPLOYMENT)
    wanted = snapshot.model.spec.desired_replicas
    if deployment is None or whole(member(deployment, "spec"), "replicas") <= wanted:
        return Plan(observed)
    return Plan(observed, shrink=(deployment, wanted))


def _superseded(job: Json, wanted: Object) -> bool:
    """Whether a Job inspects what nobody asks for any more, or does so in another way.

    One that is over is left: its verdict holds, or it goes by itself and the next is made.
    """
    if is_going(job):
        return False
    if key_of(job) != key_of(wanted):
        return True
    return not has_run(job) and _annotated(job) != _annotated(wanted)


def _serving(snapshot: Snapshot) -> list[Json]:
    return [pod for pod in snapshot.pods if not is_inspector(pod)]


def is_inspector(pod: Json) -> bool:
    """Whether a pod inspects and does not serve."""
    return text(member(member(pod, "metadata"), "labels"), NAME_LABEL) == INSPECTOR_NAME


def _annotated(body: Json) -> str:
    return text(member(member(body, "metadata"), "annotations"), SPEC_HASH_ANNOTATION)


def _digest(deployment: Object) -> str:
    template = member(member(deployment, "spec"), "template")
    return _annotated(template)
