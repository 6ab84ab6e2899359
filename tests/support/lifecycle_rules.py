"""What may happen to an installation: each rule with when it may, and what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple

from pumas_operator.intake import WATCHED
from pumas_operator.kinds import AUTOSCALER, JOB, LEASE, POD, SERVED_MODEL
from pumas_operator.operation import RELIST_SECONDS
from pumas_server.router.sessions import EndReason
from support.cluster_controllers import TEAM
from support.kubelet_pods import Phase
from support.lifecycle_world import World
from support.shared_api import SLICE

Act = Callable[[World, int], Awaitable[None] | float | None]
"""What is done; a number: so many seconds pass."""


class Rule(NamedTuple):
    """One thing that may happen; it is drawn `weight` times as often as one of weight 1."""

    name: str
    weight: int
    may: Callable[[World], bool]
    act: Act


RULES: list[Rule] = []


def rule(
    name: str, weight: int = 1, may: Callable[[World], bool] = lambda world: True
) -> Callable[[Act], Act]:
    """Note a rule down."""

    def noted(act: Act) -> Act:
        RULES.append(Rule(name, weight, may, act))
        return act

    return noted


def _there(world: World) -> bool:
    """Somebody may change the model now."""
    return not world.api.away and world.model is not None


def _has_pod(*phases: Phase) -> Callable[[World], bool]:
    return lambda world: any(
        pod.phase in phases and pod.ends_at is None for pod in world.controllers.pods.values()
    )


def _move(world: World, to: Phase, *phases: Phase) -> None:
    pods = world.controllers.pods.values()
    found = next(pod for pod in pods if pod.phase in phases and pod.ends_at is None)
    world.stir()
    world.controllers.move(found, to)


@rule("time passes")
def _time(world: World, n: int) -> float:
    return (0.0, 0.1, 1.0, 2.0)[n % 4]


@rule("idle time passes", 6)
def _idle(world: World, n: int) -> float:
    return (10.0, 25.0, 50.0, 100.0)[n % 4]


@rule("a request arrives", 10, lambda world: bool(world.routers))
def _request(world: World, n: int) -> None:
    router = world.routers[n % len(world.routers)]
    world.calls.append(router.request((0.05, 1.0, 5.0, 90.0)[n // 2 % 4]))


@rule("a caller leaves", 3, lambda world: any(c.ended is None for c in world.calls))
def _leave(world: World, n: int) -> None:
    there = [call for call in world.calls if call.ended is None]
    call = there[n % len(there)]
    if call.session is not None:
        call.session.end(EndReason.CALLER_GONE)


@rule("an explicit load", 2, lambda world: bool(world.routers))
def _load(world: World, n: int) -> None:
    router = world.routers[n % len(world.routers)]
    world.asks.append(asyncio.create_task(router.ask(load=True)))


@rule("an explicit unload", 2, lambda world: bool(world.routers))
def _unload(world: World, n: int) -> None:
    router = world.routers[n % len(world.routers)]
    world.unkind_at = world.time
    world.unloads_until = world.time + 30
    world.asks.append(asyncio.create_task(router.ask(load=False)))


@rule("a pod becomes ready", 3, _has_pod(Phase.STARTING))
def _ready(world: World, n: int) -> None:
    _move(world, Phase.READY, Phase.STARTING)


@rule("a pod runs out of memory", 1, _has_pod(Phase.STARTING, Phase.READY))
def _oom(world: World, n: int) -> None:
    _move(world, Phase.OOM, Phase.STARTING, Phase.READY)
    if n % 2:
        world.controllers.obliges = False  # once more and once more


@rule("a pod has no image", 1, _has_pod(Phase.STARTING))
def _image(world: World, n: int) -> None:
    _move(world, Phase.IMAGE, Phase.STARTING)


@rule("an engine fails", 1, _has_pod(Phase.STARTING, Phase.READY))
def _engine(world: World, n: int) -> None:
    world.engine_failed_at = world.time
    _move(world, Phase.ENGINE, Phase.STARTING, Phase.READY)


@rule("a pod recovers", 3, _has_pod(Phase.OOM, Phase.IMAGE, Phase.ENGINE))
def _recovers(world: World, n: int) -> None:
    _move(world, Phase.STARTING, Phase.OOM, Phase.IMAGE, Phase.ENGINE)


@rule("kubelets take their time", 1, lambda world: world.controllers.obliges)
def _slow(world: World, n: int) -> None:
    world.stir()
    world.controllers.obliges = False


@rule("kubelets are quick", 4, lambda world: not world.controllers.obliges)
def _quick(world: World, n: int) -> None:
    world.stir()
    world.controllers.obliges = True
    world.controllers.soon()


@rule("the file is refused", 1, lambda world: _there(world) and world.controllers.file_good)
def _refused(world: World, n: int) -> None:
    world.stir()
    world.controllers.file_good = False
    world.sources += 1
    world.change_model(source=world.source())


@rule("the file is mended", 3, lambda world: not world.controllers.file_good)
def _mended(world: World, n: int) -> None:
    world.stir()
    world.controllers.file_good = True
    if n % 2 and _there(world):
        world.sources += 1
        world.change_model(source=world.source())


@rule("an inspection ends", 3, lambda w: not w.api.away and bool(w.controllers.open_jobs()))
def _inspected(world: World, n: int) -> None:
    world.stir()
    world.controllers.finish(world.controllers.open_jobs()[0])


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
    if world.operator is not None and world.operator.watches is not None:
        if world.operator.watches.relist():
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


@rule("the model is deleted", 1, _there)
def _deleted(world: World, n: int) -> None:
    world.stir()
    world.api.cluster.drop(SERVED_MODEL, TEAM, "tiny")
    if n % 2:
        world.make_model(replicas=n // 2 % 2)


@rule("the model is made again", 6, lambda world: not world.api.away and world.model is None)
def _made(world: World, n: int) -> None:
    world.stir()
    world.make_model(replicas=n % 2)


@rule("the spec changes", 1, _there)
def _spec(world: World, n: int) -> None:
    world.stir()
    world.change_model(engine={"contextTokens": 512 * (1 + n % 3)})


@rule("somebody scales it", 1, _there)
def _scaled(world: World, n: int) -> None:
    world.stir()
    world.change_model(replicas=n % 3)


@rule("an autoscaler comes", 1, lambda w: not w.api.away and not w.api.all(AUTOSCALER))
def _autoscaler(world: World, n: int) -> None:
    target = {"kind": "ServedModel", "name": "tiny"}
    metadata = {"name": "scaler", "namespace": TEAM}
    world.api.cluster.put(AUTOSCALER, {"metadata": metadata, "spec": {"scaleTargetRef": target}})


@rule("the autoscaler goes", 3, lambda w: not w.api.away and bool(w.api.all(AUTOSCALER)))
def _no_autoscaler(world: World, n: int) -> None:
    world.api.cluster.drop(AUTOSCALER, TEAM, "scaler")


async def _quietly(work: Awaitable[None]) -> str:
    await work
    return ""
