"""The plan for one model: a table of what is there and what is to be done about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.served_model import ServedModel
from pumas_operator.kinds import DEPLOYMENT, JOB, SERVICE
from pumas_operator.plan import Snapshot
from support.snapshots import (
    BAD,
    BAD_LESS,
    BAD_MORE,
    BAD_SUSPENDED,
    FAR,
    FAR_PROFILE,
    FILE,
    NOT_A_MODEL,
    NOT_ALLOWED,
    OLD,
    OTHER_IMAGE,
    PROFILE,
    SERVES,
    UNREADABLE,
    going,
    inspector,
    job,
    judged_bad,
    known,
    model,
    name_of,
    plan,
    serving,
)

KINDS = ["Secret", "Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"]


@dataclass(frozen=True)
class Row:
    """What is there, and what is to be done: kinds and names."""

    name: str
    there: Snapshot
    children: list[str] = field(default_factory=list)
    obsolete: list[str] = field(default_factory=list)
    job: bool = False
    shrink: int | None = None


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
