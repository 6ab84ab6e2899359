"""What must hold of an installation at every moment, whatever happens to it."""

from __future__ import annotations

from collections.abc import Iterator

from pumas_crds.vocabulary import PERMANENT_REASONS, Reason
from pumas_server.router.lmsp.model_object import ERROR, READY, build_model_object
from pumas_server.router.wake import GONE, UNLOADED
from support.lifecycle_world import HOLD_SECONDS, IDLE_SECONDS, World
from support.living_router import Call
from support.shared_api import Scaling

#: By when one who waits is let go.
MARGIN_SECONDS = 2.0
#: How long after the last disturbance everybody knows the truth.
KNOWN_SECONDS = 20.0
#: How long the world must have been kind for a call that sleeps to be answered for sure.
KIND_SECONDS = 60.0
#: What may come between an operator's last look at a pod and its writing 0.
RACE_SECONDS = 1.0
ENDS = {
    "answered", "left", "lost", "broken", "stopped", "load failed", "timed out", "too many",
    "no model", "unavailable", "changed", "unreachable",
}  # fmt: skip


class Judge:
    """Looks at the world after every step, and at every change of `/scale` as it happens."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.api.scaled = self._scaled

    def look(self) -> None:
        """Raise `AssertionError` with all that is wrong now."""
        world = self._world
        world.note_trouble()
        wrong = [*world.faults, *self._callers(), *self._catalogue()]
        world.faults.clear()
        assert not wrong, "; ".join(wrong)

    def _scaled(self, done: Scaling) -> None:
        """Never twice for one sleep, never more than was wanted, never while it is in use."""
        world = self._world
        wrong = world.faults.append
        what = f"at {done.at:.2f} {done.who} scaled from {done.before} to {done.after}"
        if done.who != "operator":
            if done.after and done.before:
                wrong(f"double load: {what}")
            if done.after > max(1, world.most_wanted[done.uid]):
                wrong(f"more than was ever wanted: {what}")
            if not done.after and done.at > world.unloads_until:
                wrong(f"nobody asked for an unload: {what}")
            world.hits["router loads" if done.after else "router unloads"] += 1
            return
        state = world.status.get("loadState")
        world.hits[f"operator rests what is {state}"] += 1
        if done.after or not done.before:
            wrong(f"not its to write: {what}")
        if state == "failed":
            return
        if state != "loaded":
            wrong(f"while it is {state}: {what}")
        wrong_use = self._use(done)
        if wrong_use:
            wrong(f"{wrong_use}: {what}")

    def _use(self, done: Scaling) -> str:
        """How the model is in use that the operator puts to rest, if it is."""
        world, operator = self._world, self._world.operator
        if operator is None:
            return "dead"
        for pod in world.controllers.pods.values():
            mine = pod.model_uid == done.uid and pod.ready
            if mine and any(done.at - began > RACE_SECONDS for began in pod.calls.values()):
                return "a call is open"
        if done.at - operator.started_at < 30:
            return "it has only begun to listen"
        quiet = done.at - operator.heard.get(done.uid, 0.0)
        if RACE_SECONDS < quiet < IDLE_SECONDS - 0.1:
            return f"it heard of demand {quiet:.1f} s ago"
        unused = done.at - world.used_at.get(done.uid, 0.0)
        heard_of = done.at - world.stirred_at > IDLE_SECONDS
        if heard_of and RACE_SECONDS < unused < IDLE_SECONDS - RACE_SECONDS:
            return f"it was used {unused:.1f} s ago"
        return ""

    def _callers(self) -> Iterator[str]:
        world = self._world
        for call in tuple(world.calls):
            if call.uid and (call.served_at or call.waits_since):
                used = call.ended if call.served_at and call.ended else world.time
                if not call.ended or call.served_at:
                    world.used_at[call.uid] = max(world.used_at.get(call.uid, 0.0), used)
            if call.ended is not None:
                world.calls.remove(call)
                yield from self._end(call)
            elif call.waits_since is not None and call.served_at is None:
                waits = world.time - call.waits_since
                if waits > HOLD_SECONDS + MARGIN_SECONDS and not call.router.crashed:
                    yield f"lost wake-up: a call waits for {waits:.1f} s"

    def _end(self, call: Call) -> Iterator[str]:
        """Whether what a caller was told is true."""
        world = self._world
        waited = call.waits_since is not None
        if call.waits_since is not None:
            waits = (call.served_at or call.ended or world.time) - call.waits_since
            if waits > HOLD_SECONDS + MARGIN_SECONDS:
                yield f"lost wake-up: a call waited for {waits:.1f} s"
        world.hits[f"call {'waits, then ' if waited else ''}{call.outcome}"] += 1
        if call.outcome not in ENDS:
            yield f"a call ended as {call.outcome!r}"
        if call.router.crashed and call.ended is not None and call.outcome == "lost":
            return
        began, ended = call.began, call.ended or world.time
        if waited and call.outcome not in ("answered", "left", "too many", "stopped"):
            kind = began - world.unkind_at > KIND_SECONDS and began > call.router.started_at + 5
            if kind:
                yield f"in a kind world a call of a model at rest ended as {call.outcome!r}"
        if call.fault is not None:
            yield from self._fault(call, began, ended)

    def _fault(self, call: Call, began: float, ended: float) -> Iterator[str]:
        world, fault = self._world, call.fault
        mine = [told for told in world.told if told.uid == call.uid]
        if fault == GONE:
            if call.uid not in world.deleted:
                yield "told that the model was deleted, which it was not"
        elif fault == UNLOADED:
            if not any(told.replicas == 0 and told.at > began - 1 for told in mine):
                yield "told that the model was unloaded, which it was not"
        elif fault is not None:
            saw = [told.reason for told in mine if told.at > began]
            saw += [told.reason for told in mine if told.at <= began][-1:]
            known = saw if began - world.stirred_at > KNOWN_SECONDS else [t.reason for t in mine]
            seen_by_router = fault.reason == Reason.ENGINE_FAILED and world.engine_failed_at >= 0
            if fault.reason not in known and not seen_by_router:
                yield f"told {fault.reason}, which it never was"

    def _catalogue(self) -> Iterator[str]:
        """When everybody can know the truth, everybody says it."""
        world = self._world
        if world.calm_for < KNOWN_SECONDS:
            return
        world.hits["the truth was compared"] += 1
        ready = [p for p in world.controllers.pods.values() if p.ready and p.model_uid == world.uid]
        state = world.status.get("loadState")
        if world.uid and (state == "loaded") is not bool(ready):
            yield f"loadState {state} with {len(ready)} ready pods"
        for router in world.routers:
            rows = router.workers.catalog.rows
            if len(rows) != bool(world.uid):
                yield f"{router.name} lists {len(rows)} models"
                continue
            for record in router.workers.records:
                word = build_model_object(record, "")["status"]
                if word == READY and not ready:
                    yield f"{router.name} says ready of what does not answer"
                if word == ERROR and state != "failed":
                    yield f"{router.name} says error of what is {state}"
            for row in rows:
                called = {target.endpoint.uid for target in row.targets}
                answering = {pod.uid for pod in ready if pod.takes_calls}
                if called != answering:
                    yield f"{router.name} would call {called}, and {answering} answer"


def failed_for_good(world: World) -> bool:
    """Whether only a load request or another spec ends it."""
    reason = world.status.get("error", {}).get("reason", "")
    return world.status.get("loadState") == "failed" and reason in PERMANENT_REASONS
