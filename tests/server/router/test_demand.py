"""Demand in virtual time: told at once, then every fifteen seconds while there is use, then not."""

from __future__ import annotations

import asyncio

import pytest

from pumas_crds.demand import RENEW_SECONDS
from pumas_crds.served_model import ServedModel
from pumas_server.router.demand import Demand
from pumas_server.router.sessions import Sessions
from pumas_server.router.steering import NoSteering, Unsteerable
from support.models import served_model
from support.virtual_time import run_in_virtual_time

MODEL = served_model(activation={"onDemand": True})


class Told(NoSteering):
    """When something was told."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.away = False

    async def renew(self, model: ServedModel) -> None:
        self.at.append(round(asyncio.get_running_loop().time()))
        if self.away:
            raise Unsteerable("away")


async def scene(
    model: ServedModel = MODEL,
) -> tuple[Demand, Sessions, Told, dict[str, ServedModel]]:
    sessions, told, known = Sessions(), Told(), {model.metadata.uid: model}
    return Demand(sessions, known.get, told), sessions, told, known


def test_many_calls_are_told_at_once_and_then_now_and_then() -> None:
    async def use() -> list[float]:
        demand, _, told, _ = await scene()
        async with demand.run():
            for _ in range(40):
                demand.touch(MODEL)
                await asyncio.sleep(1)
            await asyncio.sleep(100)
        return told.at

    assert run_in_virtual_time(use()) == [0, 15, 30, 45]


def test_a_call_that_takes_long_is_use_all_the_time() -> None:
    async def use() -> list[float]:
        demand, sessions, told, _ = await scene()
        async with demand.run():
            with sessions.open() as session:
                session.model_uid = MODEL.metadata.uid
                demand.touch(MODEL)
                await asyncio.sleep(70)
            await asyncio.sleep(100)
        return told.at

    assert run_in_virtual_time(use()) == [0, 15, 30, 45, 60, 75], "its end too"


def test_what_could_not_be_told_is_told_later() -> None:
    async def use() -> list[float]:
        demand, _, told, _ = await scene()
        async with demand.run():
            told.away = True
            demand.touch(MODEL)
            await asyncio.sleep(20)
            told.away = False
            await asyncio.sleep(60)
        return told.at

    assert run_in_virtual_time(use()) == [0, 15, 30]


def test_a_model_that_is_not_loaded_on_demand_needs_none() -> None:
    async def use() -> list[float]:
        always = served_model()
        demand, _, told, _ = await scene(always)
        async with demand.run():
            demand.touch(always)
            await asyncio.sleep(60)
        return told.at

    assert run_in_virtual_time(use()) == []


def test_one_that_is_gone_is_forgotten() -> None:
    async def use() -> list[float]:
        demand, sessions, told, known = await scene()
        async with demand.run():
            with sessions.open() as session:
                session.model_uid = MODEL.metadata.uid
                demand.touch(MODEL)
                await asyncio.sleep(20)
                known.clear()
                await asyncio.sleep(60)
        return told.at

    assert run_in_virtual_time(use()) == [0, 15]


def test_the_interval_is_the_one_that_operators_count_on() -> None:
    assert pytest.approx(15) == RENEW_SECONDS


def test_what_is_no_longer_used_costs_no_time() -> None:
    async def rest() -> int:
        demand, sessions, told, _ = await scene()
        looks, models = 0, sessions.models

        def look() -> set[str]:
            nonlocal looks
            looks += 1
            return models()

        sessions.models = look  # type: ignore[method-assign]
        async with demand.run():
            demand.touch(MODEL)
            await asyncio.sleep(15_000)
            demand.touch(MODEL)
            await asyncio.sleep(1)
        assert told.at == [0, 15_000]
        return looks

    assert run_in_virtual_time(rest()) < 6_000, "not ten times a second"
