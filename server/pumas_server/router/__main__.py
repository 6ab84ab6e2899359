"""`python -m pumas_server.router`: the composition of one router in a cluster, and its life.

It listens from the start and is ready once it knows which models there are. SIGTERM stops it in
order and ends with 0; a second one does not wait. A setting that cannot be ends it with 2 and a
sentence, a port or a cluster that cannot be had with 1 and a sentence.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pumas_server.router.environment import (
    EnvironmentFault,
    RouterEnvironment,
    read_environment,
)
from pumas_server.router.listener import listen_everywhere

if TYPE_CHECKING:
    from pumas_server.router.lmsp.lease_records import LeaseRecords

#: After a second signal, as a shell says it of a process that SIGTERM ended.
_IMPATIENT = 128 + signal.SIGTERM


def main() -> int:
    """Serve until told to stop; the exit status."""
    # The first process of a container has no default action for SIGTERM: until the loop takes it
    # over, a stop would be lost. Nothing is served yet that would have to be ended first. Not by
    # an exception: in the midst of an import somebody would catch it.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    try:
        environment = read_environment(os.environ)
        # The operator does the same, or the two would derive different keys.
        secret = environment.key_secret_file.read_bytes().strip()
    except EnvironmentFault as fault:
        return _complain(str(fault), 2)
    except OSError as error:
        return _complain(f"The file of PUMAS_KEY_SECRET_FILE cannot be read: {error.strerror}.", 2)
    if not secret:
        return _complain("The file of PUMAS_KEY_SECRET_FILE is empty.", 2)
    try:
        listener = listen_everywhere(environment.port)
    except OSError as error:
        return _complain(
            f"Port {environment.port} of PUMAS_PORT cannot be listened on: {error.strerror}.", 1
        )
    with (
        listener,
        suppress(asyncio.CancelledError),
        asyncio.Runner(loop_factory=_loop_factory()) as runner,
    ):
        return runner.run(_serve(environment, secret, listener))
    return _IMPATIENT


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's loop where there is one: less of each core goes into sockets."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return new_event_loop


async def _serve(environment: RouterEnvironment, secret: bytes, listener: socket.socket) -> int:
    # Only now: what is imported here takes seconds, and a wrong setting is told at once.
    from pumas_server.router.app import Router
    from pumas_server.router.cluster_access import NoCluster, cluster_access, load_configuration
    from pumas_server.router.cluster_source import ClusterSource
    from pumas_server.router.cluster_steering import ClusterSteering
    from pumas_server.router.lasting_objects import set_lasting_apart
    from pumas_server.router.lmsp.lease_records import LeaseRecords
    from pumas_server.router.server import serving
    from pumas_server.router.stop_signals import stop_signals
    from pumas_server.telemetry import configure_logging

    configure_logging()
    stop = asyncio.Event()
    with stop_signals(stop):
        try:
            configuration = await load_configuration()
        except NoCluster as error:
            return _complain(str(error), 1)
        async with cluster_access(configuration) as access:
            source = ClusterSource(access, environment.watched, secret)
            steering = ClusterSteering(access, environment.namespace, environment.identity)
            managed = environment.settings.model_management
            records = LeaseRecords(access, environment.namespace) if managed else None
            router = Router(source, environment.settings, steering, records=records)
            async with serving(router, listener), _collecting(records):
                set_lasting_apart()
                await stop.wait()
    return 0


@asynccontextmanager
async def _collecting(records: LeaseRecords | None) -> AsyncIterator[None]:
    """While the block lasts, records that are nobody's any more are deleted."""
    from pumas_server.router.background import start
    from pumas_server.router.lmsp.collection import collect_for_ever

    tasks = [] if records is None else [start(collect_for_ever(records), "collect-records")]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _complain(sentence: str, status: int) -> int:
    print(sentence, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
