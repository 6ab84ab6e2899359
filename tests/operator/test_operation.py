"""The operator at work: listing before anything, tasks that outlive faults, and no write without the lead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pumas_crds.demand import DEMAND, PURPOSE_LABEL
from pumas_crds.vocabulary import MODEL_UID_LABEL
from pumas_operator import keyed_queue
from pumas_operator import operation as operating
from pumas_operator.cluster import Refused, Unreachable
from pumas_operator.environment import Environment
from pumas_operator.kinds import DEPLOYMENT, JOB, LEASE, POD, SERVED_MODEL
from pumas_operator.manifests import Settings
from pumas_operator.operation import Fenced, Operation
from pumas_operator.requests import Request, build_list
from support.cluster_objects import model_object
from support.eventually import eventually
from support.fake_cluster import FakeCluster
from support.operator_world import HOME, SOURCE, TEAM, Told, World

ENVIRONMENT = Environment(
    namespace=HOME,
    watched=(),
    key_secret_file=Path("unused"),
    identity="a",
    port=0,
    settings=Settings(image="registry.example/worker:1", namespace=HOME),
)


@asynccontextmanager
async def working(
    cluster: FakeCluster, leads: Callable[[], bool] = lambda: True
) -> AsyncIterator[Operation]:
    """An operation whose tasks run while the block lasts."""
    operation = Operation(cluster, Told(), ENVIRONMENT, b"a secret", leads)
    await operation.prepare()
    tasks = [asyncio.create_task(each) for each in operation.work()]
    try:
        yield operation
    finally:
        failed = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert failed == []


async def test_what_serves_already_is_seen_before_anything_is_said() -> None:
    world = World()
    await world.served()
    before = len(world.cluster.writes)
    async with working(world.cluster):
        asked = len(world.cluster.requests)
        await eventually(lambda: len(world.cluster.requests) > asked, "work done")
        await asyncio.sleep(0)
    assert world.cluster.writes[before:] == []
    assert world.reason("Servable") == ("True", "Available")


async def test_events_lead_to_work() -> None:
    cluster = FakeCluster()
    async with working(cluster) as operation:
        cluster.changed = operation.intake.seen
        cluster.put(SERVED_MODEL, model_object("tiny", source=SOURCE))
        await eventually(lambda: "status" in cluster.get(SERVED_MODEL, TEAM, "tiny"), "work done")
        assert len(cluster.named(JOB)) == 1


async def test_what_was_deleted_unseen_is_noticed_after_a_listing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operating, "SUSPICION_SECONDS", 0.0)
    world = World()
    await world.served()
    cluster = world.cluster
    async with working(cluster) as operation:
        cluster.changed = operation.intake.seen
        cluster.gone = lambda kind, body: None
        cluster.drop(POD, TEAM, "tiny-serving-1")
        cluster.drop(DEPLOYMENT, TEAM, "tiny-serving")
        operation.intake.relisted()
        await eventually(lambda: cluster.named(DEPLOYMENT) == ["tiny-serving"], "work done")
        await eventually(lambda: world.reason("Servable") == ("False", "NoEndpoint"), "work done")


async def test_one_model_that_cannot_be_handled_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def bad(request: Request) -> Refused | None:
        if "/servedmodels/bad/" in request.path:
            raise RuntimeError("a fault of ours")
        return None

    cluster = FakeCluster(refuse=bad)
    for name in ("bad", "good"):
        cluster.put(SERVED_MODEL, model_object(name, source=SOURCE))
    async with working(cluster) as operation:
        cluster.changed = operation.intake.seen
        await eventually(lambda: "status" in cluster.get(SERVED_MODEL, TEAM, "good"), "work done")
        await eventually(lambda: "team/bad could not be reconciled" in caplog.text, "work done")


async def test_it_waits_for_an_api_server_and_for_the_definitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operating, "_PAUSE_SECONDS", 0.0)
    answers = iter([Refused(404, "NotFound", "the server could not find it"), None])
    cluster = FakeCluster(refuse=lambda request: next(answers, None))
    cluster.put(SERVED_MODEL, model_object("tiny", source=SOURCE))
    async with working(cluster):
        await eventually(lambda: "status" in cluster.get(SERVED_MODEL, TEAM, "tiny"), "work done")


async def test_one_that_leads_again_has_lost_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating, "FENCED_SECONDS", 0.01)
    cluster, leads, attempts = FakeCluster(), False, 0

    def asked() -> bool:
        nonlocal attempts
        attempts += 1
        return leads

    cluster.put(SERVED_MODEL, model_object("tiny", source=SOURCE))
    async with working(cluster, asked):
        # After so many failures the pause would be a minute.
        await eventually(lambda: attempts >= 10, "attempts")
        assert cluster.writes == []
        leads = True
        await eventually(lambda: "status" in cluster.get(SERVED_MODEL, TEAM, "tiny"), "work done")


async def test_when_the_api_server_is_back_nothing_waits_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operating, "SUSPICION_SECONDS", 0.0)
    monkeypatch.setattr(keyed_queue, "FIRST_PAUSE_SECONDS", 3600.0)
    cluster = FakeCluster()
    away = Unreachable("away")

    def no_writes(request: Request) -> Refused | None:
        if request.method != "GET" and away is not None:
            raise away
        return None

    cluster.refuse = no_writes
    cluster.put(SERVED_MODEL, model_object("tiny", source=SOURCE))
    async with working(cluster):
        await eventually(lambda: len(cluster.writes) > 2, "attempts")
        away = None
        await eventually(lambda: "status" in cluster.get(SERVED_MODEL, TEAM, "tiny"), "work done")


async def test_what_was_told_of_models_that_are_gone_goes_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operating, "SUSPICION_SECONDS", 0.0)
    cluster = FakeCluster()
    kept = cluster.put(SERVED_MODEL, model_object("tiny", source=SOURCE))
    for name, uid in (("kept", kept["metadata"]["uid"]), ("left-over", "nobody")):
        labels = {PURPOSE_LABEL: DEMAND, MODEL_UID_LABEL: uid}
        cluster.put(LEASE, {"metadata": {"name": name, "namespace": HOME, "labels": labels}})
    async with working(cluster) as operation:
        operation.intake.relisted()
        await eventually(lambda: cluster.named(LEASE) == ["kept"], "one Lease")


async def test_without_the_lead_nothing_is_written() -> None:
    cluster = FakeCluster()
    fenced = Fenced(cluster, lambda: False)
    cluster.put(SERVED_MODEL, model_object("tiny"))
    await fenced.send(build_list(SERVED_MODEL.everywhere, ""))
    with pytest.raises(Unreachable, match="does not lead"):
        await fenced.send(Request("PATCH", SERVED_MODEL.path(TEAM, "tiny", "status"), {}))
    assert cluster.writes == []
