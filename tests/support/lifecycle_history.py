"""One history of an installation: what was drawn happens to it, then all heals, and it must settle."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pumas_operator.kinds import AUTOSCALER
from support import lifecycle_faults  # noqa: F401 (it notes its rules down)
from support.cluster_controllers import TEAM
from support.kubelet_pods import NO_MODEL, Phase
from support.lifecycle_judge import Judge, failed_for_good
from support.lifecycle_rules import RULES
from support.lifecycle_world import ACTIVATION, IDLE_SECONDS, World
from support.operator_world import KEY

#: What a draw is below.
DRAWS = 2**20
#: What passes after a step, and in what slices it is looked at.
_PAUSES = (0.0, 0.03, 0.1, 0.3, 1.0, 2.0, 3.0, 8.0)
_SLICE_SECONDS = 5.0
#: By when what is wanted serves, and by when what is not wanted rests.
SERVES_WITHIN, RESTS_WITHIN = 240.0, IDLE_SECONDS + 120.0


async def live(draws: Sequence[int], hits: Counter[str], story: list[str]) -> None:
    """The history; raises `AssertionError` at the first thing that is wrong."""
    world = World(hits)
    judge = Judge(world)
    try:
        with _errors_told(world):
            world.start_operator()
            world.start_router()
            world.make_model(replicas=draws[0] % 2)
            await _pass(world, judge, 5.0)
            for draw in draws:
                await _step(world, judge, draw, story)
            await _converge(world, judge)
    except AssertionError as error:
        story.append(f"{world.time:8.2f} WRONG: {error}")
        raise
    finally:
        await world.close()


async def _step(world: World, judge: Judge, draw: int, story: list[str]) -> None:
    may = [rule for rule in RULES if rule.may(world) for _ in range(rule.weight)]
    rest, chosen = divmod(draw, 128)
    rule = may[chosen * len(may) // 128]
    amount, pause = divmod(rest, len(_PAUSES))
    world.hits[f"rule: {rule.name}"] += 1
    story.append(f"{world.time:8.2f} {rule.name} ({amount}), then {_PAUSES[pause]} s")
    done = rule.act(world, amount)
    if inspect.isawaitable(done):
        await done
        done = None
    await _pass(world, judge, _PAUSES[pause] if done is None else float(done))


async def _pass(world: World, judge: Judge, seconds: float) -> None:
    """Time, with a look now and then."""
    while seconds > 0:
        await asyncio.sleep(min(seconds, _SLICE_SECONDS))
        seconds -= _SLICE_SECONDS
        judge.look()
    judge.look()


async def _converge(world: World, judge: Judge) -> None:
    await _heal(world, judge)
    began = world.time
    call = world.routers[0].request(0.1)
    while call.outcome != "answered":
        assert world.time - began < SERVES_WITHIN, f"with demand it does not serve: {world.status}"
        if failed_for_good(world) and world.routers:
            world.asks.append(asyncio.create_task(world.routers[0].ask(load=True)))
        if call.ended is not None:
            call = world.routers[0].request(0.1)
            world.calls.append(call)
        await _pass(world, judge, _SLICE_SECONDS)
    world.hits["it serves with demand"] += 1
    await _pass(world, judge, RESTS_WITHIN)
    assert world.replicas == 0 and not world.controllers.pods, (
        f"without demand it does not rest: {world.describe()}"
    )
    assert world.status["loadState"] == "unloaded", world.describe()
    world.hits["it rests without demand"] += 1
    before, operator = len(world.api.cluster.writes), world.operator
    assert operator is not None
    operator.operation._queue.add(KEY)
    await _pass(world, judge, 1.0)
    after = world.api.cluster.writes[before:]
    assert not after, f"one reconciliation more writes {after}; {world.describe()}"


async def _heal(world: World, judge: Judge) -> None:
    """All faults end, and nobody but callers does anything any more."""
    if world.operator is not None:
        world.operator.way.loses, world.operator.way.dies = False, None
    world.api.go_away(False)
    controllers = world.controllers
    controllers.obliges = controllers.file_good = True
    if world.operator is None:
        world.start_operator()
    for router in world.routers:
        router.way.break_watches()
        router.way.way.loses, router.way.way.dies = False, None
    await _pass(world, judge, 1.0)
    if world.operator is None:
        world.start_operator()
    await _pass(world, judge, 1.0)
    assert world.operator is not None
    world.operator.way.loses, world.operator.way.dies = False, None
    if world.operator.watches is not None:
        world.operator.watches.go_on()
    if world.api.all(AUTOSCALER):
        world.api.cluster.drop(AUTOSCALER, TEAM, "scaler")
    if world.model is None:
        world.make_model(replicas=0)
    world.change_model(activation=ACTIVATION)
    for pod in controllers.pods.values():
        if pod.phase is Phase.REFUSED:
            controllers.move(pod, Phase.STARTING)
    world.stir()
    controllers.soon()
    # Long calls end, and what operator and routers wait for comes.
    await _pass(world, judge, max(120.0, world.blind_until - world.time))
    refused = world.status.get("error", {}).get("reason") == NO_MODEL["reason"]
    if refused and world.status["loadState"] == "loaded":
        # What serves is older than what was refused, and a load request is for what does not serve.
        world.sources += 1
        world.change_model(source=world.source())
        world.stir()


@contextmanager
def _errors_told(world: World) -> Iterator[None]:
    """What a process logs as an error is a fault of ours."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            world.faults.append(self.format(record))

    handler = Handler(logging.ERROR)
    loggers = [logging.getLogger(name) for name in ("pumas_operator", "pumas_server")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = True
