"""Pods that refuse connections, over real sockets: who is called, who is asked, and when again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from pumas_crds.facts import Fault
from pumas_server.router import ejection as ejection_module
from pumas_server.router.ejection import Ejections
from pumas_server.router.source import Endpoint
from support.eventually import eventually
from support.routers import RunningRouter, chat_operation, running_router
from support.serving_pods import ServingPod, pod_record

KEY = ("model", "pod", "http://pod")
ENDPOINT = Endpoint("pod", "http://pod", "http://supervisor", True)


@asynccontextmanager
async def serving(*names: str) -> AsyncIterator[tuple[RunningRouter, list[ServingPod]]]:
    """A router before a model with pods of these names, all of which can be called."""
    async with AsyncExitStack() as stack:
        pods = [await stack.enter_async_context(ServingPod(name).serving()) for name in names]
        running = await stack.enter_async_context(running_router(pod_record(*pods), ready=False))
        await running.until(lambda c: bool(c.rows) and len(c.rows[0].targets) == len(pods))
        yield running, pods
        await running.idle()


def attempts(running: RunningRouter) -> list[str]:
    """The pods that calls try, from now on, in order."""
    tried: list[str] = []
    original = running.router.upstream.post

    async def post(session: Any, target: Any, *rest: Any) -> Any:
        tried.append(target.endpoint.uid.removeprefix("uid-of-"))
        return await original(session, target, *rest)

    running.router.upstream.post = post  # type: ignore[assignment, method-assign]
    return tried


def chosen(running: RunningRouter) -> list[str]:
    """The pods that may be called now."""
    (row,) = running.router.workers.catalog.rows
    return [target.endpoint.uid.removeprefix("uid-of-") for target in row.targets]


async def test_a_pod_that_refuses_is_out_until_it_says_that_it_is_ready() -> None:
    async with serving("a") as (running, (pod,)):
        assert (await running.operate(chat_operation()))[0] == 200
        models_before = (await running.get("/v1/models"))[2]
        await pod.engine_down()
        pod.ready = False
        tried = attempts(running)
        status, body = await running.operate(chat_operation())
        assert (status, body["error"]["code"]) == (503, "capability_unavailable")
        assert body["error"]["outcome"] == "not_admitted"
        assert (tried, chosen(running)) == (["a"], [])
        # What is known of it says so now, and what the API server says of the model stays.
        _, _, raw = await running.get("/v1/capabilities?model=llm")
        told = {c["capability"]: c["availability"] for c in json.loads(raw)["capabilities"]}
        wanted = {"state": "unavailable", "reason": "runtime_unavailable"}
        assert told["chat_generation"] == wanted
        assert (await running.get("/v1/models"))[2] == models_before
        (listed,) = json.loads((await running.get("/v1/served-models"))[2])["models"]
        assert (listed["load_state"], listed.get("error")) == ("loaded", None)
        # Its engine listens again and its descriptor says ready: only /readyz counts.
        await pod.engine_up()
        seen = len(pod.engine.seen)
        asked = len(pod.asked_ready)
        await eventually(lambda: len(pod.asked_ready) > asked, "it is asked")
        for path, sent in (
            ("/v1/model-operations", chat_operation()),
            ("/v1/chat/completions", {"model": "llm"}),
        ):
            status, headers, raw = await running.post(path, sent)
            assert (status, json.loads(raw)["error"]["code"]) == (503, "capability_unavailable")
            assert headers["x-pumas-outcome"] == "not_admitted"
        assert (tried, len(pod.engine.seen)) == (["a"], seen)
        pod.ready = True
        await running.until(lambda c: bool(c.rows[0].targets))
        assert (await running.operate(chat_operation()))[0] == 200
        assert pod.supervisor.seen == [], "supervisors are asked by GET only"


async def test_a_call_goes_to_another_pod_and_the_refusing_one_is_left_alone() -> None:
    async with serving("a", "b") as (running, (a, b)):
        await a.engine_down()
        a.ready = False
        tried = attempts(running)
        while "a" not in tried:
            assert (await running.operate(chat_operation()))[0] == 200
        assert tried[-2:] == ["a", "b"]
        count = len(tried)
        for _ in range(10):
            assert (await running.operate(chat_operation()))[0] == 200
        assert tried[count:] == ["b"] * 10
        await a.engine_up()
        a.ready = True
        await eventually(lambda: len(chosen(running)) == 2, "a is back")
        before = len(b.engine.seen)
        while not a.engine.seen:
            assert (await running.operate(chat_operation()))[0] == 200
        assert len(b.engine.seen) >= before


async def test_all_pods_that_refuse_are_tried_once_by_a_call_and_never_again() -> None:
    async with serving("a", "b", "c") as (running, pods):
        for pod in pods:
            await pod.engine_down()
            pod.ready = False
        tried = attempts(running)
        for _ in range(5):
            status, body = await running.operate(chat_operation())
            assert (status, body["error"]["outcome"]) == (503, "not_admitted")
        assert sorted(tried) == ["a", "b", "c"]


async def test_a_pod_that_says_yes_and_refuses_is_tried_ever_more_rarely() -> None:
    async with serving("a", "b") as (running, (a, _)):
        await a.engine_down()
        tried = attempts(running)
        times: list[float] = []
        clock = asyncio.get_running_loop().time
        async with asyncio.timeout(20):
            while len(times) < 5:
                count = len(tried)
                assert (await running.operate(chat_operation()))[0] == 200
                if "a" in tried[count:]:
                    times.append(clock())
        # Back at once the first time, then after 100, 200 and 400 ms.
        gaps = [after - before for before, after in pairwise(times)]
        assert all(
            gap >= 0.9 * least for gap, least in zip(gaps[1:], (0.1, 0.2, 0.4), strict=True)
        ), gaps


async def test_a_pod_that_replaces_another_is_no_suspect() -> None:
    async with serving("a") as (running, (pod,)):
        await pod.engine_down()
        pod.ready = False
        assert (await running.operate(chat_operation()))[0] == 503
        await pod.engine_up()
        (record,) = running.source._records
        running.source.put(
            replace(record, endpoints=(replace(record.endpoints[0], uid="uid-of-b"),))
        )
        await running.until(lambda c: bool(c.rows[0].targets))
        assert chosen(running) == ["b"]
        assert not [t for t in asyncio.all_tasks() if t.get_name() == "readyz-uid-of-a"]
        assert (await running.operate(chat_operation()))[0] == 200


async def test_why_a_pod_is_not_there_is_told_with_the_first_refusal_where_it_is_known() -> None:
    killed = {"reason": "EngineFailed", "message": "The engine was ended by SIGKILL."}
    async with serving("a") as (running, (pod,)):
        record = pod_record(pod)
        status = record.model.status.model_copy(update={"error": Fault.model_validate(killed)})
        model = record.model.model_copy(update={"status": status})
        running.source.put(replace(record, model=model))
        await running.until(lambda c: c.rows[0].error is not None)
        assert chosen(running) == ["a"], "it is not known yet that it is gone"
        await pod.engine_down()
        pod.ready = False
        told, body = await running.operate(chat_operation())
        assert (told, body["error"]["message"]) == (
            503,
            "no endpoint of the model can be reached; "
            "EngineFailed: The engine was ended by SIGKILL.",
        )


async def test_a_change_of_an_ejected_pods_facts_does_not_bring_it_back() -> None:
    async with serving("a") as (running, (pod,)):
        await pod.engine_down()
        pod.ready = False
        assert (await running.operate(chat_operation()))[0] == 503
        (record,) = running.source._records
        for spec_hash in ("x", "y"):
            before = running.router.workers.catalog
            running.source.put(replace(record, spec_hash=spec_hash))
            await eventually(
                lambda known=before: running.router.workers.catalog is not known,  # type: ignore[misc]
                "it is known",
            )
            assert chosen(running) == []


async def test_idle_pods_share_the_calls() -> None:
    """One after another: none is in flight when the next one comes."""
    async with serving("a", "b") as (running, (a, b)):
        for _ in range(40):
            assert (await running.operate(chat_operation()))[0] == 200
        assert min(len(a.engine.seen), len(b.engine.seen)) > 5


async def test_asking_stops_with_the_router() -> None:
    async with serving("a") as (running, (pod,)):
        await pod.engine_down()
        pod.ready = False
        assert (await running.operate(chat_operation()))[0] == 503
        assert [t for t in asyncio.all_tasks() if t.get_name().startswith("readyz-")]
    assert not [t for t in asyncio.all_tasks() if t.get_name().startswith("readyz-")]


# Ejections by themselves


class Asked:
    """A pod that says no so often, and who was told of its return."""

    def __init__(self, noes: int) -> None:
        self.noes = noes
        self.times: list[float] = []
        self.returned = 0
        self.ejections = Ejections(self._ready, self._back)

    async def _ready(self, endpoint: Endpoint) -> bool:
        self.times.append(asyncio.get_running_loop().time())
        return len(self.times) > self.noes

    def _back(self) -> None:
        self.returned += 1

    async def until_back(self, count: int = 1) -> None:
        await eventually(lambda: self.returned == count, "it is back")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ejection_module, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(ejection_module, "LONGEST_PAUSE_SECONDS", 0.08)


async def test_asking_begins_at_once_and_grows_rarer(quick: None) -> None:
    asked = Asked(noes=5)
    asked.ejections.eject(KEY, ENDPOINT)
    assert KEY in asked.ejections
    await asked.until_back()
    assert KEY not in asked.ejections
    gaps = [after - before for before, after in pairwise(asked.times)]
    least = (0.02, 0.04, 0.08, 0.08, 0.08)
    assert all(gap >= 0.9 * wanted for gap, wanted in zip(gaps, least, strict=True)), gaps


async def test_one_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ejection_module, "FIRST_PAUSE_SECONDS", 1000)
    asked = Asked(noes=0)
    asked.ejections.eject(KEY, ENDPOINT)
    await asked.until_back()


async def test_one_that_is_out_is_asked_by_one_task() -> None:
    asked = Asked(noes=1)
    for _ in range(3):
        asked.ejections.eject(KEY, ENDPOINT)
    await asked.until_back()
    assert len(asked.times) == 2


async def test_one_that_refuses_again_soon_is_not_asked_at_once(quick: None) -> None:
    asked = Asked(noes=0)
    began = 0.0
    for count, least in enumerate((0, 0.02, 0.04, 0.08, 0.08), start=1):
        began = asyncio.get_running_loop().time()
        asked.ejections.eject(KEY, ENDPOINT)
        await asked.until_back(count)
        assert asked.times[-1] - began >= 0.9 * least


async def test_one_that_was_back_for_long_is_asked_at_once(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(noes=3)
    asked.ejections.eject(KEY, ENDPOINT)
    await asked.until_back()
    monkeypatch.setattr(ejection_module, "TRUSTED_SECONDS", 0)
    monkeypatch.setattr(ejection_module, "FIRST_PAUSE_SECONDS", 1000)
    asked.ejections.eject(KEY, ENDPOINT)
    await asked.until_back(2)


async def test_one_that_is_forgotten_is_asked_no_more() -> None:
    asked = Asked(noes=1000)
    asked.ejections.eject(KEY, ENDPOINT)
    await eventually(lambda: asked.times, "it is asked")
    asked.ejections.forget(KEY)
    asked.ejections.forget(KEY)
    assert KEY not in asked.ejections
    await eventually(
        lambda: not [t for t in asyncio.all_tasks() if t.get_name() == "readyz-pod"], "it ends"
    )
    await asked.ejections.close()
