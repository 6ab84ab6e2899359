"""Actions under keys: what is kept, what is not, and who waits for whom."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pumas_server.router.lmsp.action import Action
from pumas_server.router.lmsp.actions import Actions, Answer
from pumas_server.router.lmsp.catalogue import Catalogue
from pumas_server.router.lmsp.load_control import ModelGone
from pumas_server.router.lmsp.memory_records import MemoryRecords
from pumas_server.router.lmsp.problems import PAGES, ProblemCode, ProblemError
from pumas_server.router.lmsp.request_records import (
    Claim,
    Claimed,
    RecordsUnavailable,
    StoredAnswer,
)
from pumas_server.router.steering import Unsteerable
from support.catalogue import A, E, ScriptedModels, X, six
from support.eventually import eventually


class World:
    """Actions on the six models."""

    def __init__(self, records: MemoryRecords | None = None) -> None:
        self.models = ScriptedModels(*six())
        catalogue, listed = Catalogue(PAGES), self.models.records
        find = catalogue.listing(listed).find
        self.actions = Actions(self.models, records or MemoryRecords(), find, PAGES)

    async def do(
        self,
        action: Action = Action.LOAD,
        model_id: str = A,
        key: str | None = "k",
        principal: str = "p",
    ) -> Answer:
        return await self.actions.carry_out(action, model_id, principal, key)

    async def refused(self, **asked: Any) -> ProblemCode:
        with pytest.raises(ProblemError) as refused:
            await self.do(**asked)
        return refused.value.code


@pytest.fixture
def world() -> World:
    return World()


async def test_without_a_key_each_request_is_done(world: World) -> None:
    assert (await world.do(key=None)).status == 202
    assert (await world.do(key=None)).status == 202
    assert world.models.asked == [A, A]


async def test_a_key_of_another_principal_is_another(world: World) -> None:
    await world.do()
    assert not (await world.do(principal="q")).replayed
    assert world.models.asked == [A, A]


async def test_an_unload_of_a_failed_model_keeps_its_diagnosis(world: World) -> None:
    answer = await world.do(Action.UNLOAD, X, None)
    shown = json.loads(answer.body)
    assert (answer.status, shown["status"]) == (200, "error")
    assert shown["error"]["detail"] == "The engine ended with signal 6."


@pytest.mark.parametrize("fault", [None, ModelGone()], ids=["never there", "gone meanwhile"])
async def test_that_a_model_was_not_there_is_kept(world: World, fault: Exception | None) -> None:
    model_id = A if fault else "nope"
    world.models.fault = fault
    first = await world.do(model_id=model_id)
    assert (first.status, json.loads(first.body)["code"]) == (404, "model_not_found")
    world.models.fault = None
    assert await world.do(model_id=model_id) == Answer(404, first.body, replayed=True)


async def test_what_cannot_be_carried_out_is_not_kept(world: World) -> None:
    world.models.fault = Unsteerable("The cluster does not answer.")
    for _ in range(2):
        assert await world.refused() is ProblemCode.UNAVAILABLE
    world.models.fault = None
    assert await world.do() == await world.do(key=None)


async def test_a_fault_of_ours_frees_the_key(world: World) -> None:
    world.models.fault = RuntimeError("a fault of ours")
    with pytest.raises(RuntimeError):
        await world.do()
    world.models.fault = None
    assert not (await world.do()).replayed


async def test_a_request_that_is_cancelled_frees_the_key(world: World) -> None:
    world.models.pass_on.clear()
    task = asyncio.create_task(world.do())
    await eventually(lambda: world.models.asked, "the action begins")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    world.models.pass_on.set()
    assert not (await world.do()).replayed


async def test_of_two_at_once_one_is_done_and_the_other_told_so(world: World) -> None:
    world.models.pass_on.clear()
    first = asyncio.create_task(world.do())
    await eventually(lambda: world.models.asked, "the first begins")
    assert await world.refused() is ProblemCode.IDEMPOTENCY_IN_PROGRESS
    assert await world.refused(model_id=E) is ProblemCode.IDEMPOTENCY_KEY_REUSED
    world.models.pass_on.set()
    answer = await first
    assert await world.do() == Answer(202, answer.body, replayed=True)
    assert world.models.asked == [A]


class NoRecords(MemoryRecords):
    """Records that cannot be read, or cannot be written."""

    def __init__(self, *, readable: bool) -> None:
        super().__init__()
        self.readable = readable

    async def claim(self, principal: str, key: str, fingerprint: str) -> Claim:
        if not self.readable:
            raise RecordsUnavailable("nobody answers")
        return await super().claim(principal, key, fingerprint)

    async def store(self, claim: Claimed, answer: StoredAnswer) -> None:
        raise RecordsUnavailable("nobody answers")


async def test_without_records_nothing_is_done(caplog: pytest.LogCaptureFixture) -> None:
    world = World(NoRecords(readable=False))
    assert await world.refused() is ProblemCode.UNAVAILABLE
    assert world.models.asked == []
    assert (await world.do(key=None)).status == 202
    assert "a keyed request is refused: nobody answers" in caplog.text


async def test_an_answer_that_is_not_kept_is_given(caplog: pytest.LogCaptureFixture) -> None:
    world = World(NoRecords(readable=True))
    assert (await world.do()).status == 202
    assert "is not kept: nobody answers" in caplog.text
