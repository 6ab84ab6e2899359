"""A container's probes over time, as a kubelet carries them out.

One deviation: while a container starts it is asked every 50 ms and not once a period, because
whoever waits for a small model at a terminal notices the difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pumas_local.pod import LOOPBACK, Container, Ports, Probe
from pumas_local.probe import answers

STARTING_PERIOD_SECONDS = 0.05


async def watch(container: Container, ports: Ports, report_ready: Callable[[bool], None]) -> str:
    """Report readiness as it changes, until the container has to be started anew; say why."""
    startup = container.startup_probe
    if startup is not None and not await _starts(startup, ports):
        budget = startup.period_seconds * startup.failure_threshold
        return f"It was not ready within {budget:g} seconds of its start."
    readiness = asyncio.create_task(
        _watch_readiness(container.readiness_probe, ports, report_ready)
    )
    try:
        await _watch_liveness(container.liveness_probe, ports)
    finally:
        readiness.cancel()
    return "It no longer answered its liveness probe."


async def _starts(probe: Probe, ports: Ports) -> bool:
    try:
        async with asyncio.timeout(probe.period_seconds * probe.failure_threshold):
            await _first_success(probe, ports)
    except TimeoutError:
        return False
    return True


async def _watch_readiness(
    probe: Probe | None, ports: Ports, report_ready: Callable[[bool], None]
) -> None:
    if probe is not None:
        await _first_success(probe, ports)
    report_ready(True)
    failures = 0
    while probe is not None:
        await asyncio.sleep(probe.period_seconds)
        failures = 0 if await _ask(probe, ports) else failures + 1
        if failures in (0, probe.failure_threshold):
            report_ready(failures == 0)


async def _watch_liveness(probe: Probe | None, ports: Ports) -> None:
    """Return once the container failed too often in a row; without a probe, never."""
    if probe is None:
        await asyncio.Event().wait()
        return
    failures = 0
    while failures < probe.failure_threshold:
        await asyncio.sleep(probe.period_seconds)
        failures = 0 if await _ask(probe, ports) else failures + 1


async def _first_success(probe: Probe, ports: Ports) -> None:
    while True:
        if await _ask(probe, ports):
            return
        await asyncio.sleep(STARTING_PERIOD_SECONDS)


async def _ask(probe: Probe, ports: Ports) -> bool:
    target = probe.http_get
    return await answers(LOOPBACK, ports.named(target.port), target.path, probe.timeout_seconds)
