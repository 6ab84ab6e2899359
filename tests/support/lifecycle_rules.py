"""What may happen to an installation: each rule with when it may, and what it does.

Here are callers, pods, files and the model itself; `lifecycle_faults` adds what happens to processes,
watches and the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from pumas_operator.kinds import AUTOSCALER, SERVED_MODEL
from pumas_server.router.sessions import EndReason
from support.cluster_controllers import TEAM
from support.kubelet_pods import Phase
from support.lifecycle_world import World

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


@rule("a pod runs out of memory", 2, _has_pod(Phase.STARTING, Phase.READY))
def _oom(world: World, n: int) -> None:
    _move(world, Phase.OOM, Phase.STARTING, Phase.READY)
    if n % 2:
        world.controllers.obliges = False  # once more and once more


@rule("a pod has no image", 3, _has_pod(Phase.STARTING))
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
