"""Which pods are asked about themselves, and which need not be asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pumas_crds.facts import PodDescriptor, PodState, RuntimeFacts
from pumas_operator.describing import Describer, is_running
from support.kubernetes import RUNNING, condition, container, pod, terminated, waiting

RAN = PodDescriptor(state=PodState.READY, runtime=RuntimeFacts(build="b1"))
STARTS = PodDescriptor(state=PodState.STARTING)


class Scripted:
    """Supervisors by address; they answer once as many were asked as are to be asked at once."""

    def __init__(self, at_once: int = 1, **told: PodDescriptor | None) -> None:
        self.told = told
        self.asked: list[str] = []
        self._barrier = asyncio.Barrier(at_once)

    async def describe(self, address: str) -> PodDescriptor | None:
        self.asked.append(address)
        await asyncio.wait_for(self._barrier.wait(), 20)
        return self.told[address]


def running(name: str = "a", *, ready: bool = True, version: int = 1) -> dict[str, Any]:
    """A pod whose address is its name."""
    conditions = [condition("Ready", "True" if ready else "False")]
    body = pod(name, server=container("server", RUNNING), conditions=conditions, podIP=name)
    body["metadata"]["resourceVersion"] = str(version)
    return body


async def test_all_that_run_are_asked_at_once_and_those_that_answer_are_told() -> None:
    supervisors = Scripted(3, a=RAN, b=None, c=STARTS)
    pods = [running("a"), running("b"), running("c", ready=False), pod("d", podIP="d")]
    told = await Describer(supervisors).describe(pods)
    assert told == {"uid-of-a": RAN, "uid-of-c": STARTS}
    assert sorted(supervisors.asked) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("looks", "descriptor", "asked"),
    [
        ([running(), running()], RAN, 1),
        ([running(), running(version=2), running(version=2)], RAN, 2),
        ([running(ready=False), running(ready=False)], RAN, 2),
        ([running(ready=False), running(version=2), running(version=2)], RAN, 2),
        ([running(), running(version=2, ready=False), running(version=2, ready=False)], RAN, 3),
        ([running(), running()], STARTS, 2),
        ([running(), running()], None, 2),
    ],
    ids=[
        "ready", "changed", "not ready", "ready later", "ready before", "no engine", "no answer",
    ],
)  # fmt: skip
async def test_a_ready_pod_is_asked_once_for_each_state_and_others_each_time(
    looks: list[dict[str, Any]], descriptor: PodDescriptor | None, asked: int
) -> None:
    supervisors = Scripted(a=descriptor)
    describer = Describer(supervisors)
    expected = {} if descriptor is None else {"uid-of-a": descriptor}
    for look in looks:
        assert await describer.describe([look]) == expected
    assert len(supervisors.asked) == asked


async def test_one_pods_answer_is_not_anothers_of_the_same_version() -> None:
    other = RAN.model_copy(update={"boot_id": "other"})
    supervisors = Scripted(a=RAN, b=other)
    describer = Describer(supervisors)
    for _ in range(2):
        told = await describer.describe([running("a"), running("b")])
        assert told == {"uid-of-a": RAN, "uid-of-b": other}
    assert supervisors.asked == ["a", "b"]


async def test_what_a_pod_said_is_forgotten_with_it() -> None:
    supervisors = Scripted(a=RAN, b=RAN)
    describer = Describer(supervisors)
    await describer.describe([running("a"), running("b")])
    describer.forget("uid-of-a")
    describer.forget("uid-of-none")
    await describer.describe([running("a"), running("b")])
    assert supervisors.asked == ["a", "b", "a"]


SERVER = container("server", RUNNING)


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        (pod(server=SERVER, podIP="192.0.2.1"), True),
        (pod(server=SERVER), False),
        (pod(podIP="192.0.2.1"), False),
        (pod(server=container("server", waiting("Starting")), podIP="192.0.2.1"), False),
        (pod(server=container("server", terminated()), podIP="192.0.2.1"), False),
        (pod(server=container("sidecar", RUNNING), podIP="192.0.2.1"), False),
        (pod(fetch=container("server", RUNNING), podIP="192.0.2.1"), False),
        ({}, False),
    ],
)
def test_whether_a_supervisor_runs_and_has_an_address(body: dict[str, Any], runs: bool) -> None:
    assert is_running(body) is runs
