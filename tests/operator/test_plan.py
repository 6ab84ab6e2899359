"""The plan for one model: a table of what is there and what is to be done about it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.facts import Fault, FileFacts, PodDescriptor, PodState
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import SPEC_HASH_ANNOTATION, Reason
from pumas_operator.children import build_children
from pumas_operator.inspection_job import build_inspection_job, inspection_hash
from pumas_operator.kinds import DEPLOYMENT, JOB, SERVICE
from pumas_operator.manifests import Settings
from pumas_operator.plan import Plan, Snapshot, build_plan, is_inspector
from support.kubernetes import condition, container, pod, terminated, waiting
from support.models import served_model, serving_profile

SETTINGS = Settings(image="registry.example/worker:1", namespace="pumas-system")
PROFILE = serving_profile()
OTHER_IMAGE = serving_profile(images={"llamaCpp": "registry.example/worker:2"})
FILE: dict[str, Any] = {"architecture": "llama", "sizeBytes": 10}
NOT_A_MODEL = {"reason": "NotAModel", "message": "It is no model."}
UNREADABLE = Fault(reason=Reason.INVALID_SPEC, message="The ServingProfile default cannot be read.")
KINDS = ["Secret", "Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"]


def model(**spec: Any) -> ServedModel:
    if spec.get("runtime") != "external":
        spec.setdefault("source", hub("tiny.gguf"))
    return served_model("tiny", **spec)


def hub(file: str) -> dict[str, Any]:
    return {"huggingFace": {"repo": "team/tiny", "file": file}}


def known(of: ServedModel, now: ServedModel | None = None) -> ServedModel:
    """The model `now`, whose status has a good verdict on the file of `of`."""
    status = ServedModelStatus(
        file=FileFacts.model_validate(FILE), inspection_hash=inspection_hash(of)
    )
    return (now or of).model_copy(update={"status": status})


def deployed(of: ServedModel, profile: ServingProfile = PROFILE) -> dict[str, Any]:
    """The Deployment of a model as the cluster has it."""
    return _stored(build_children(of, profile, SETTINGS, "key")[-1])


def job(of: ServedModel, profile: ServingProfile = PROFILE, **status: Any) -> dict[str, Any]:
    """The inspection Job of a model as the cluster has it."""
    return {**_stored(build_inspection_job(of, profile, SETTINGS)), "status": status}


def going(body: dict[str, Any]) -> dict[str, Any]:
    metadata = body["metadata"] | {"deletionTimestamp": "2030-01-01T00:00:00Z"}
    return body | {"metadata": metadata}


def _stored(desired: object) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(desired))
    body["metadata"]["uid"] = f"uid-of-{body['metadata']['name']}"
    return body


def inspector(of: dict[str, Any], told: dict[str, Any] | None = None) -> dict[str, Any]:
    """The pod of a Job, with its verdict if it has one."""
    end = {} if told is None else terminated(0, json.dumps(told))
    body = pod("inspector", inspect=container("inspect", end))
    body["metadata"]["labels"] = of["metadata"]["labels"]
    body["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": of["metadata"]["uid"]}]
    return body


def serving(of: dict[str, Any], name: str = "pod") -> dict[str, Any]:
    """A ready pod of a Deployment."""
    template = of["spec"]["template"]["metadata"]
    digest = template["annotations"][SPEC_HASH_ANNOTATION]
    body = pod(name, conditions=[condition("Ready", "True")], spec_hash=digest)
    body["metadata"]["labels"] = template["labels"]
    return body


def plan(snapshot: Snapshot) -> Plan:
    return build_plan(snapshot, SETTINGS, "key")


OLD = model(replicas=2)
SERVES = {DEPLOYMENT: deployed(OLD)}
BAD = model(replicas=2, source=hub("bad.gguf"))
BAD_LESS = model(replicas=1, source=hub("bad.gguf"))
BAD_MORE = model(replicas=3, source=hub("bad.gguf"))
BAD_SUSPENDED = model(replicas=2, source=hub("bad.gguf"), suspend=True)
NOT_ALLOWED = model(replicas=0, source={"path": "/weights/tiny.gguf"})
FAR = model(runtime="external", endpoint={"url": "http://far.example"})
FAR_PROFILE = serving_profile(allowedEndpointHosts=["far.example"])


def judged_bad(now: ServedModel) -> Snapshot:
    """The model was served by an old spec; the file of the new one is no model."""
    looks = job(now)
    pods = (inspector(looks, {"error": NOT_A_MODEL}),)
    return Snapshot(known(OLD, now), PROFILE, children=SERVES, jobs=(job(OLD), looks), pods=pods)


@dataclass(frozen=True)
class Row:
    """What is there, and what is to be done: kinds and names."""

    name: str
    there: Snapshot
    children: list[str] = field(default_factory=list)
    obsolete: list[str] = field(default_factory=list)
    job: bool = False
    shrink: int | None = None


def name_of(body: Any) -> str:
    return str(body["metadata"]["name"])


ROWS = [
    Row("a new model is inspected first", Snapshot(model(), PROFILE), job=True),
    Row("its Job is waited for", Snapshot(model(), PROFILE, jobs=(job(model()),))),
    Row(
        "a Job that failed is waited for: it goes by itself",
        Snapshot(model(), PROFILE, jobs=(job(model(), failed=1),)),
    ),
    Row(
        "a good file is served",
        Snapshot(
            model(),
            PROFILE,
            jobs=(job(model(), succeeded=1),),
            pods=(inspector(job(model()), {"file": FILE}),),
        ),
        children=KINDS,
    ),
    Row("a known file is not inspected again", Snapshot(known(model()), PROFILE), children=KINDS),
    Row(
        "a change of the engine alone rolls without an inspection",
        Snapshot(known(OLD, model(engine={"contextTokens": 256})), PROFILE, children=SERVES),
        children=KINDS,
    ),
    Row(
        "a change of the profile rolls without an inspection",
        Snapshot(known(OLD), OTHER_IMAGE, children=SERVES, jobs=(job(OLD, succeeded=1),)),
        children=KINDS,
    ),
    Row(
        "another source is inspected while the old one serves",
        Snapshot(known(OLD, BAD), PROFILE, children=SERVES, jobs=(job(OLD, succeeded=1),)),
        obsolete=[name_of(job(OLD))],
        job=True,
    ),
    Row("a bad file rolls nothing", judged_bad(BAD), obsolete=[name_of(job(OLD))]),
    Row("nor more pods", judged_bad(BAD_MORE), obsolete=[name_of(job(OLD))]),
    Row("but fewer pods", judged_bad(BAD_LESS), obsolete=[name_of(job(OLD))], shrink=1),
    Row("or none", judged_bad(BAD_SUSPENDED), obsolete=[name_of(job(OLD))], shrink=0),
    Row(
        "a source that is still looked at shrinks what serves as well",
        Snapshot(known(OLD, BAD_SUSPENDED), PROFILE, children=SERVES, jobs=(job(BAD_SUSPENDED),)),
        shrink=0,
    ),
    Row("without its profile nothing is done", Snapshot(known(OLD), None, children=SERVES)),
    Row(
        "but to have fewer pods",
        Snapshot(known(OLD, model(suspend=True)), None, children=SERVES),
        shrink=0,
    ),
    Row(
        "with a profile that cannot be read nothing is done",
        Snapshot(known(OLD), None, UNREADABLE, children=SERVES),
    ),
    Row(
        "but to have fewer pods of it",
        Snapshot(known(OLD, model(replicas=1)), None, UNREADABLE, children=SERVES),
        shrink=1,
    ),
    Row(
        "a source that the profile does not allow is not even inspected",
        Snapshot(known(OLD, NOT_ALLOWED), PROFILE, children=SERVES),
        shrink=0,
    ),
    Row(
        "a profile that changes supersedes a Job that runs",
        Snapshot(model(), OTHER_IMAGE, jobs=(job(model(), active=1),)),
        obsolete=[name_of(job(model()))],
        job=True,
    ),
    Row(
        "not one that has ended well",
        Snapshot(
            model(),
            OTHER_IMAGE,
            jobs=(job(model(), succeeded=1),),
            pods=(inspector(job(model()), {"file": FILE}),),
        ),
        children=KINDS,
    ),
    Row(
        "nor one that has ended badly",
        Snapshot(model(), OTHER_IMAGE, jobs=(job(model(), failed=1),)),
    ),
    Row(
        "a Job that goes already is not deleted again",
        Snapshot(known(OLD), PROFILE, children=SERVES, jobs=(going(job(BAD)),)),
        children=KINDS,
    ),
    Row(
        "an external server leaves nothing of ours",
        Snapshot(
            known(OLD, FAR),
            FAR_PROFILE,
            children={SERVICE: {"metadata": {"name": "tiny-serving"}}} | SERVES,
            jobs=(job(OLD),),
        ),
        obsolete=["tiny-serving", "tiny-serving", name_of(job(OLD))],
    ),
    Row(
        "one that is not allowed as well",
        Snapshot(known(OLD, FAR), PROFILE, children=SERVES),
        obsolete=["tiny-serving"],
    ),
    Row(
        "a duplicate leaves nothing of ours",
        Snapshot(known(OLD), PROFILE, duplicate=True, children=SERVES, jobs=(job(OLD),)),
        obsolete=["tiny-serving", name_of(job(OLD))],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_plans(row: Row) -> None:
    made = plan(row.there)
    assert [child["kind"] for child in made.children] == row.children
    assert [name_of(body) for _, body in made.obsolete] == row.obsolete
    assert (made.job is not None) is row.job
    shrink = None if made.shrink is None else (name_of(made.shrink[0]), made.shrink[1])
    assert shrink == (None if row.shrink is None else ("tiny-serving", row.shrink))


def test_what_changes_the_engine_changes_the_pods_and_what_does_not_does_not() -> None:
    def template(of: ServedModel) -> Any:
        spec: Any = plan(Snapshot(known(of), PROFILE)).children[-1]["spec"]
        return spec["template"]

    assert template(OLD) == template(model(replicas=5)) == template(model(suspend=True))
    assert template(OLD) != template(model(engine={"contextTokens": 256}))


@pytest.mark.parametrize(
    ("there", "profile_found", "refused"),
    [
        (Snapshot(OLD, PROFILE), True, None),
        (Snapshot(OLD, None), False, None),
        (Snapshot(OLD, None, UNREADABLE), True, Reason.INVALID_SPEC),
        (Snapshot(NOT_ALLOWED, PROFILE), True, Reason.SOURCE_NOT_ALLOWED),
        (Snapshot(FAR, PROFILE), True, Reason.ENDPOINT_NOT_ALLOWED),
        (Snapshot(FAR, FAR_PROFILE), True, None),
        (Snapshot(FAR, None), False, None),
    ],
)
def test_refusals_are_observed(
    there: Snapshot, profile_found: bool, refused: Reason | None
) -> None:
    observed = plan(there).observed
    assert observed.profile_found is profile_found
    assert (observed.refused and observed.refused.reason) == refused
    assert observed.external is (there.model is FAR)


def test_pods_are_current_by_the_template_that_is_wanted() -> None:
    pods = (serving(SERVES[DEPLOYMENT], "old"), inspector(job(OLD)))
    assert [is_inspector(each) for each in pods] == [False, True]
    same = plan(Snapshot(known(OLD), PROFILE, children=SERVES, pods=pods)).observed
    assert [pod.current for pod in same.pods] == [True], "an inspector serves nobody"
    changed = model(replicas=2, engine={"contextTokens": 256})
    other = plan(Snapshot(known(OLD, changed), PROFILE, children=SERVES, pods=pods)).observed
    assert [pod.current for pod in other.pods] == [False]
    assert other.spec_hash != same.spec_hash
    wished_away = replace(Snapshot(known(OLD), PROFILE, pods=pods), duplicate=True)
    assert [pod.current for pod in plan(wished_away).observed.pods] == [False]


def test_a_pod_is_observed_with_what_it_says_itself() -> None:
    body = serving(SERVES[DEPLOYMENT])
    told = PodDescriptor(state=PodState.READY)
    there = Snapshot(known(OLD), PROFILE, pods=(body,), descriptors={"uid-of-pod": told})
    [observed] = plan(there).observed.pods
    assert observed.descriptor == told


MOUNT = Fault(reason=Reason.CREATE_CONTAINER_CONFIG_ERROR, message="MountVolume.SetUp failed.")
NO_CLASS = Fault(reason=Reason.UNSCHEDULABLE, message="storageclass not found.")
UNPLACED = condition("PodScheduled", "False", message="0/1 nodes are available.")


@pytest.mark.parametrize(
    ("body", "stall", "waits", "message"),
    [
        (pod("p"), MOUNT, Reason.CREATE_CONTAINER_CONFIG_ERROR, "MountVolume.SetUp failed."),
        (
            pod("p", conditions=[UNPLACED]),
            NO_CLASS,
            Reason.UNSCHEDULABLE,
            "storageclass not found.",
        ),
        (pod("p", conditions=[UNPLACED]), MOUNT, Reason.UNSCHEDULABLE, "0/1 nodes are available."),
        (pod("p"), None, None, ""),
    ],
)
def test_events_speak_where_a_pod_is_silent_or_says_less(
    body: dict[str, Any], stall: Fault | None, waits: Reason | None, message: str
) -> None:
    stalled = {} if stall is None else {"uid-of-p": stall}
    there = Snapshot(known(OLD), PROFILE, pods=(body,), stalled=stalled)
    [observed] = plan(there).observed.pods
    assert (observed.waiting, observed.message) == (waits, message)


QUOTA = Fault(reason=Reason.REPLICA_FAILURE, message="exceeded quota.")
PULL = Fault(reason=Reason.IMAGE_PULL_BACK_OFF, message="no such image")


@pytest.mark.parametrize(
    ("pods", "stalled", "fault"),
    [
        ((), {}, None),
        ((), {"of-job": QUOTA}, QUOTA),
        ((pod("inspector"),), {"of-pod": MOUNT}, MOUNT),
        ((pod("inspector", inspect=container("inspect", waiting("ErrImagePull", "no such image"))),), {"of-pod": MOUNT}, PULL),
        ((pod("inspector", conditions=[UNPLACED]),), {"of-pod": NO_CLASS}, NO_CLASS),
    ],
)  # fmt: skip
def test_why_an_inspection_does_not_run(
    pods: tuple[dict[str, Any], ...], stalled: dict[str, Fault], fault: Fault | None
) -> None:
    looks = job(OLD)
    uids = {"of-job": looks["metadata"]["uid"], "of-pod": "uid-of-inspector"}
    for body in pods:
        body["metadata"] |= {
            part: inspector(looks)["metadata"][part] for part in ("labels", "ownerReferences")
        }
    told = {uids[who]: each for who, each in stalled.items()}
    there = Snapshot(OLD, PROFILE, jobs=(looks,), pods=pods, stalled=told)
    observed = plan(there).observed.inspection
    assert observed is not None
    assert (observed.result, observed.fault) == (None, fault)


def test_a_verdict_outweighs_what_events_say() -> None:
    looks = job(OLD)
    pods = (inspector(looks, {"file": FILE}),)
    there = Snapshot(OLD, PROFILE, jobs=(looks,), pods=pods, stalled={"uid-of-inspector": MOUNT})
    observed = plan(there).observed.inspection
    assert observed is not None and observed.result is not None and observed.fault is None


def test_the_verdict_of_another_jobs_pod_is_not_taken() -> None:
    other = job(BAD)
    pods = (inspector(other, {"file": FILE}),)
    made = plan(Snapshot(OLD, PROFILE, jobs=(job(OLD), other), pods=pods))
    assert made.children == ()
    assert made.observed.inspection is not None and made.observed.inspection.result is None


MODELS = st.builds(
    lambda now, judged: known(OLD, now) if judged else now,
    st.sampled_from([OLD, BAD, BAD_LESS, BAD_MORE, BAD_SUSPENDED, NOT_ALLOWED, FAR]),
    st.booleans(),
)
JOBS = st.sampled_from(
    [
        *(job(OLD), job(OLD, OTHER_IMAGE), job(OLD, succeeded=1), job(BAD), job(BAD, failed=1)),
        going(job(BAD)),
    ]
)
VERDICTS = st.sampled_from(
    [
        (),
        (inspector(job(BAD), {"file": FILE}),),
        (inspector(job(BAD), {"error": NOT_A_MODEL}),),
        (serving(SERVES[DEPLOYMENT]),),
    ]
)
SNAPSHOTS = st.builds(
    Snapshot,
    MODELS,
    st.none() | st.sampled_from([PROFILE, OTHER_IMAGE, FAR_PROFILE]),
    st.none(),
    st.booleans(),
    st.sampled_from([{}, SERVES]),
    st.lists(JOBS, max_size=2, unique_by=name_of).map(tuple),
    VERDICTS,
)


@given(SNAPSHOTS)
def test_what_no_plan_does(there: Snapshot) -> None:
    made = plan(there)
    doing = (bool(made.children), made.shrink is not None, made.job is not None)
    assert not (made.children and (made.shrink or made.job)), doing
    if made.shrink is not None:
        deployment: Any = made.shrink[0]
        assert made.shrink[1] < deployment["spec"]["replicas"], "never more pods"
    if made.job is not None:
        left = {name_of(body) for body in there.jobs}
        left -= {name_of(body) for kind, body in made.obsolete if kind is JOB}
        assert name_of(made.job) not in left, "what is made is not there"
    if there.duplicate or there.profile is None or made.observed.refused is not None:
        assert not made.children and made.job is None
    workload_goes = any(kind is not JOB for kind, _ in made.obsolete)
    assert not workload_goes or there.duplicate or made.observed.external


@given(SNAPSHOTS)
def test_a_plan_depends_on_nothing_else(there: Snapshot) -> None:
    assert plan(there) == plan(there)
