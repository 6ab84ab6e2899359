"""What may happen to the processes of an installation, their watches, clocks and API server: rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta

from pumas_operator.intake import WATCHED
from pumas_operator.kinds import JOB, LEASE, POD, SERVED_MODEL
from pumas_operator.operation import RELIST_SECONDS
from support.lifecycle_rules import rule
from support.lifecycle_world import World
from support.shared_api import SLICE


@rule("a router crashes and a new one starts", 1, lambda world: bool(world.routers))
async def _router_crashes(world: World, n: int) -> None:
    world.stir()
    await world.crash_router(world.routers[n % len(world.routers)])
    world.start_router()


@rule("a router dies as it writes", 1, lambda world: bool(world.routers))
def _router_dies(world: World, n: int) -> None:
    world.stir()
    router = world.routers[n % len(world.routers)]

    async def die() -> None:
        world.hits["a router died as it wrote"] += 1
        world.stir()
        await world.crash_router(router)
        world.start_router()

    router.way.way.dies = lambda: world.asks.append(asyncio.create_task(_quietly(die())))


@rule("a second router", 1, lambda world: len(world.routers) < 2)
def _second(world: World, n: int) -> None:
    world.stirred_at = world.time
    world.start_router()


@rule("the second router goes", 1, lambda world: len(world.routers) > 1)
async def _fewer(world: World, n: int) -> None:
    await world.crash_router(world.routers[-1])


@rule("the operator crashes", 1, lambda world: world.operator is not None)
async def _operator_crashes(world: World, n: int) -> None:
    world.stir()
    await world.crash_operator()


@rule("the operator dies as it writes", 1, lambda world: world.operator is not None)
def _operator_dies(world: World, n: int) -> None:
    world.stir()
    operator = world.operator
    assert operator is not None

    async def die() -> None:
        world.hits["the operator died as it wrote"] += 1
        world.stir()
        if world.operator is operator:
            await world.crash_operator()

    operator.way.dies = lambda: world.asks.append(asyncio.create_task(_quietly(die())))


@rule("the operator restarts", 6, lambda world: world.operator is None)
def _operator_starts(world: World, n: int) -> None:
    world.stir()
    world.start_operator()


@rule("an answer is lost", 2)
def _lost(world: World, n: int) -> None:
    ways = [router.way.way for router in world.routers]
    ways += [world.operator.way] if world.operator is not None else []
    if ways:
        world.stir()
        ways[n % len(ways)].loses = True


@rule("a router's watch stalls", 1, lambda world: bool(world.routers))
def _router_stalls(world: World, n: int) -> None:
    world.stir()
    kinds = ({SERVED_MODEL}, {SLICE}, {SERVED_MODEL, SLICE})[n // 2 % 3]
    world.routers[n % len(world.routers)].way.stalled |= kinds


@rule("a router's watch goes on", 4, lambda world: any(r.way.stalled for r in world.routers))
def _router_goes_on(world: World, n: int) -> None:
    world.stir()
    for router in world.routers:
        router.way.break_watches(rewinds=0)


@rule("a router lists anew", 1, lambda world: bool(world.routers))
async def _router_lists(world: World, n: int) -> None:
    world.stir()
    world.api.go_away(True)
    world.api.forget()
    for router in world.routers:
        router.way.break_watches()
    await asyncio.sleep(0.01)
    world.api.cluster._version += 1
    world.api.forget()
    world.api.go_away(False)


@rule(
    "the operator's watch stalls", 1, lambda w: w.operator is not None and bool(w.operator.watches)
)
def _operator_stalls(world: World, n: int) -> None:
    world.stir()
    watches = world.operator.watches if world.operator is not None else None
    if watches is not None:
        kinds = {watched.kind for watched in WATCHED}
        watches.stalled |= (kinds, {LEASE}, {SERVED_MODEL}, {POD}, {JOB, POD})[n % 5]


def _operator_stalled(world: World) -> bool:
    operator = world.operator
    return operator is not None and operator.watches is not None and bool(operator.watches.stalled)


@rule("the operator's watch goes on", 2, _operator_stalled)
def _operator_goes_on(world: World, n: int) -> None:
    world.stir()
    if world.operator is not None and world.operator.watches is not None:
        world.operator.watches.go_on()


@rule("the operator lists anew", 3, lambda w: _operator_stalled(w) and not w.api.away)
def _operator_lists(world: World, n: int) -> None:
    world.stir()
    watches = world.operator.watches if world.operator is not None else None
    if watches is not None and watches.relist():
        # kopf tells of no empty listing: what went unseen is noticed at the next full one.
        world.blind_until = world.time + RELIST_SECONDS + 20


@rule("events are told twice", 2)
def _twice(world: World, n: int) -> None:
    world.stir()
    if world.operator is not None and world.operator.watches is not None:
        world.operator.watches.replay(1 + n % 5)
    for router in world.routers:
        router.way.break_watches(rewinds=1 + n % 5)


@rule("the API server goes away", 1, lambda world: not world.api.away)
def _away(world: World, n: int) -> None:
    world.stir()
    world.api.go_away(True)


@rule("the API server is back", 6, lambda world: world.api.away)
def _back(world: World, n: int) -> None:
    world.stir()
    world.api.go_away(False)


@rule("clocks go wrong", 1)
def _skew(world: World, n: int) -> None:
    world.router_skew = timedelta(seconds=(0, 3600, -3600, 20)[n % 4])
    world.operator_skew = timedelta(seconds=(0, -7200, 7200, 1)[n // 4 % 4])


async def _quietly(work: Awaitable[None]) -> str:
    await work
    return ""
