"""`python -m pumas_operator`: the composition of one operator, and its life.

Health answers from the start; then this operator waits to lead; then it lists what there is,
follows it by kopf, and reconciles. Whatever fails beyond repair ends the process with 1, and the
kubelet starts another; SIGTERM ends it with 0 and gives the Lease up.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import aiohttp
import kopf

from pumas_operator.cluster import api_server
from pumas_operator.describing import HttpSupervisors
from pumas_operator.environment import Environment, EnvironmentFault, read_environment
from pumas_operator.handlers import build_registry, build_settings
from pumas_operator.health import Health
from pumas_operator.leader import Leader, LeadershipLost
from pumas_operator.operation import LEASE_NAME, Operation

_log = logging.getLogger("pumas_operator")


def main() -> int:
    """Run until told to stop; 2 and a sentence when the environment cannot be."""
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO
    )
    logging.getLogger("kopf").setLevel(logging.WARNING)
    try:
        environment = read_environment(os.environ)
        secret = environment.key_secret_file.read_bytes().strip()
    except EnvironmentFault as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"The file of PUMAS_KEY_SECRET_FILE cannot be read: {error.strerror}.", file=sys.stderr
        )
        return 2
    if not secret:
        print("The file of PUMAS_KEY_SECRET_FILE is empty.", file=sys.stderr)
        return 2
    status = 0
    try:
        asyncio.run(_run(environment, secret))
    except* LeadershipLost:
        _log.error("another operator leads now; this one ends")
        status = 1
    except* Exception as failures:
        _log.error("the operator cannot go on", exc_info=failures)
        status = 1
    return status


async def _run(environment: Environment, secret: bytes) -> None:
    stop, health = asyncio.Event(), Health()
    _on_signals(stop.set)
    async with (
        health.serving(environment.port),
        api_server() as cluster,
        aiohttp.ClientSession(trust_env=False) as session,
    ):
        leader = Leader(cluster, environment.namespace, LEASE_NAME, environment.identity)
        health.renewed_at = lambda: leader.renewed_at
        supervisors = HttpSupervisors(session)
        operation = Operation(cluster, supervisors, environment, secret, leader.valid)
        leader.unreachable = operation.interrupted
        if not await _unless(stop, leader.acquire()):
            return
        health.leads()
        try:
            async with asyncio.TaskGroup() as tasks:
                work = [leader.hold(), operation.prepare()]
                leading = [tasks.create_task(each) for each in work]
                if await _unless(stop, leading[1]):
                    leading += [tasks.create_task(each) for each in operation.work()]
                    leading += await _watch(tasks, environment, operation, health, stop)
                    await stop.wait()
                for task in leading:
                    task.cancel()
        finally:
            await leader.release()


async def _watch(
    tasks: asyncio.TaskGroup,
    environment: Environment,
    operation: Operation,
    health: Health,
    stop: asyncio.Event,
) -> list[asyncio.Task[None]]:
    """Start kopf twice: for the operator's own namespace, and for those with models."""
    ready = [asyncio.Event(), asyncio.Event()]

    async def watch(at_home: bool, ready_flag: asyncio.Event) -> None:
        pulse = health.pulse if at_home else None
        namespaces = (environment.namespace,) if at_home else environment.watched
        await kopf.operator(
            registry=build_registry(
                operation.intake, at_home=at_home, lease=LEASE_NAME, pulse=pulse
            ),
            settings=build_settings(at_home=at_home),
            # Else kopf asks who runs it, and a container's user has no name.
            identity=environment.identity,  # type: ignore[arg-type]
            standalone=True,
            namespaces=namespaces,
            clusterwide=not namespaces,
            ready_flag=ready_flag,
        )
        stop.set()  # it ends by itself at a signal, until that is ours again

    started = [
        tasks.create_task(watch(at_home, flag), name=f"kopf at_home={at_home}")
        for at_home, flag in zip((True, False), ready, strict=True)
    ]
    for flag in ready:
        await _unless(stop, flag.wait())
    _on_signals(stop.set)
    return started


async def _unless(stop: asyncio.Event, work: Awaitable[object]) -> bool:
    """Wait for the work, but not beyond a stop; whether it was done."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return False
        await doing
        return True
    finally:
        doing.cancel()
        stopping.cancel()


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


if __name__ == "__main__":
    sys.exit(main())
