"""A small kubelet for our own pod templates: containers as processes, states through a callback.

The life of a pod: init containers in order, each run again with back-off until it succeeds or
reports a fault that no repetition mends; then the serving container, started anew with back-off
whenever it ends or its probes say so; at the end SIGTERM, the grace, SIGKILL. What a container
leaves in its termination log is read after its exit and becomes part of the observation.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pumas_crds.facts import Fault, Inspection, PodDescriptor
from pumas_crds.vocabulary import PERMANENT_REASONS, Reason
from pumas_local import health
from pumas_local.container_log import last_line
from pumas_local.descriptor import read_descriptor
from pumas_local.folder import RUN_FOLDER, PodFolder, write_secrets
from pumas_local.held_ports import hold_ports
from pumas_local.pod import (
    Container,
    Deployment,
    Place,
    PodSpec,
    Ports,
    build_environment,
    select_inherited,
    select_secret_files,
)
from pumas_local.process import Process
from pumas_local.task_end import explain_end
from pumas_operator.observation import PodObservation

FIRST_BACK_OFF_SECONDS = 1.0
LONGEST_BACK_OFF_SECONDS = 60.0
#: A container that ran this long did not fail to start: its back-off begins anew.
SETTLED_SECONDS = 600.0
TERMINATION_LOG_LIMIT = 4096
HEARING_PERIOD_SECONDS = 0.25

Report = Callable[[PodObservation], None]
Attend = Callable[[Process, Container, Ports], Awaitable[str]]
logger = logging.getLogger(__name__)


class Kubelet:
    """Makes pods below one data folder, with `DATA/models` as the cache they share."""

    def __init__(self, data: Path) -> None:
        self._data = data.absolute()

    def create(
        self,
        deployment: Deployment,
        secrets: Mapping[str, Mapping[str, str]],
        report: Report,
        *,
        serves: bool = True,
    ) -> LocalPod:
        """Make a pod of the Deployment, with its folder and files. `report` hears its changes.

        One that does not serve is a Job's: its container runs until it succeeds. Raises `OSError`
        when the data folder cannot hold it.
        """
        folder = PodFolder.claim(self._data / RUN_FOLDER, deployment.metadata.name)
        place = Place(run=folder.path, models=self._data / "models")
        spec = deployment.spec.template.spec
        files = select_secret_files(spec, place, secrets)
        if not serves:
            runs = {"init_containers": spec.containers, "containers": ()}
            spec = spec.model_copy(update=runs)
        pod = LocalPod(spec, folder, place, files, report)
        try:
            pod.furnish()
        except OSError:
            folder.release()
            raise
        return pod


@dataclass(frozen=True, slots=True)
class _Exit:
    failed: bool
    sentence: str
    told: Inspection | None = None


class LocalPod:
    """One pod on this machine."""

    def __init__(
        self,
        spec: PodSpec,
        folder: PodFolder,
        place: Place,
        secrets: Mapping[Path, str],
        report: Report,
    ) -> None:
        self._spec = spec
        self._folder = folder
        self._place = place
        self._secrets = secrets
        self._report = report
        self._inherited = select_inherited(os.environ, Path(sys.executable))
        self._started = asyncio.Event()
        self._turned = asyncio.Event()
        self._becomes_ready = False
        self._task: asyncio.Task[None] | None = None
        self.observation = PodObservation(uid=str(uuid.uuid4()))
        self.ports: Ports | None = None
        """Where its serving container is; None while none runs."""

    def furnish(self) -> None:
        """Have in its folder what its containers find there. Raises `OSError`."""
        self._place.models.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secrets(self._secrets)

    async def start(self) -> None:
        """Begin; return when the first process runs."""
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._note_end)
        await self._started.wait()

    async def ended(self) -> None:
        """Wait until nothing of it runs any more, and nothing will."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def stop(self) -> None:
        """End all processes within the grace period; at once if this call is cancelled."""
        task = self._task
        if task is None or self.observation.terminating:
            return
        self._observe(terminating=True)
        task.cancel()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()  # a second time, which ends the grace
            await asyncio.wait({task})
            raise
        finally:
            self._folder.release()

    async def _run(self) -> None:
        try:
            for container in self._spec.init_containers:
                if not await self._initialise(container):
                    return
            for container in self._spec.containers:
                await self._keep_running(container)
        finally:
            self._started.set()

    async def _initialise(self, container: Container) -> bool:
        """Run an init container until it succeeds; False when it never will."""
        delays = back_off()
        while True:
            end = await self._run_once(container, _ended)
            told = end.told or self.observation.inspection
            self._observe(inspection=told, fetch_failed=end.failed)
            if not end.failed:
                return True
            self._warn(container, end)
            if end.told and end.told.error and end.told.error.reason in PERMANENT_REASONS:
                return False
            await asyncio.sleep(next(delays))

    async def _keep_running(self, container: Container) -> None:
        now = asyncio.get_running_loop().time
        delays = back_off()
        while True:
            began = now()
            end = await self._run_once(container, self._attend)
            told = end.told.error if end.told else None
            fault = told or Fault(reason=Reason.ENGINE_FAILED, message=end.sentence)
            self._observe(engine_fault=fault, restarts=self.observation.restarts + 1)
            self._warn(container, end)
            if now() - began > SETTLED_SECONDS:
                delays = back_off()
            await asyncio.sleep(next(delays))

    async def _run_once(self, container: Container, attend: Attend) -> _Exit:
        """Run a container until it ends, or until `attend` says why it must be ended.

        It has ports of its own, each time others: one that it could not listen on is not tried
        again.
        """
        with hold_ports() as ports:
            return await self._run_on(ports, container, attend)

    async def _run_on(self, ports: Ports, container: Container, attend: Attend) -> _Exit:
        environment = build_environment(container, ports, self._place, self._inherited)
        log = self._folder.log(container.name)
        try:
            if self._folder.restore():
                self.furnish()
            process = Process(container.command, environment, self._place.run, log)
        except OSError as error:
            return _Exit(True, f"The process could not be started: {error.strerror}.")
        finally:
            self._started.set()
        try:
            verdict = await attend(process, container, ports)
        finally:
            self.ports = None
            self._observe(ready=False, descriptor=None)
            await process.end(self._spec.termination_grace_period_seconds)
        status = await process.wait()
        told = self._take_termination_log(container)
        return _Exit(status != 0, verdict or _describe(status), told)

    async def _attend(self, process: Process, container: Container, ports: Ports) -> str:
        """Let the probes decide about the serving container."""
        self.ports = ports
        self._report(self.observation)
        ended = asyncio.create_task(process.wait())
        watched = asyncio.create_task(health.watch(container, ports, self._set_ready))
        heard = asyncio.create_task(self._hear(ports))
        try:
            await asyncio.wait({ended, watched}, return_when=asyncio.FIRST_COMPLETED)
            return watched.result() if watched.done() else ""
        finally:
            for task in (ended, watched, heard):
                task.cancel()

    async def _hear(self, ports: Ports) -> None:
        """Take over the pod's own account: what its engine is, or why it does not run.

        An engine may fail for ever under a supervisor that lives: no exit tells of that.
        """
        while True:
            self._turned.clear()
            if not (self.observation.ready and self.observation.descriptor):
                self._heard(await read_descriptor(ports))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._turned.wait(), HEARING_PERIOD_SECONDS)

    def _heard(self, told: PodDescriptor | None) -> None:
        """Believe what the pod says, if it answered at all."""
        if self._becomes_ready:
            self._becomes_ready = False
            self._observe(ready=True, engine_fault=None, descriptor=told)
        elif told is not None and self.observation.ready:
            self._observe(descriptor=told)
        elif told is not None and told.error is not None:
            self._observe(engine_fault=told.error)

    def _take_termination_log(self, container: Container) -> Inspection | None:
        path = self._place.resolve(container.termination_message_path)
        try:
            text = path.read_bytes()[:TERMINATION_LOG_LIMIT]
            path.unlink()
        except FileNotFoundError:
            return None
        try:
            return Inspection.model_validate_json(text)
        except ValidationError:
            logger.warning("container %s left an illegible termination log", container.name)
            return None

    def _set_ready(self, ready: bool) -> None:
        """Take over a probe's verdict; that it is ready is told with what it says it is."""
        self._becomes_ready = ready and not self.observation.ready
        if not ready:
            self._observe(ready=False, descriptor=None)
        self._turned.set()

    def _observe(self, **changes: Any) -> None:
        observation = replace(self.observation, **changes)
        if observation != self.observation:
            self.observation = observation
            self._report(observation)

    def _warn(self, container: Container, end: _Exit) -> None:
        where = self._folder.log(container.name)
        why = end.sentence
        if end.told and end.told.error:
            # Its own last line says the same, and may name a path: here the user alone reads it.
            why = last_line(where) or end.told.error.message
        logger.warning("container %s ended: %s (its output: %s)", container.name, why, where)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if (fault := explain_end(task, "pod")) is not None:
            self._observe(engine_fault=fault)


async def _ended(process: Process, container: Container, ports: Ports) -> str:
    """Let an init container take the time it takes: it has no probes."""
    await process.wait()
    return ""


def _describe(status: int) -> str:
    if status < 0:
        return f"The process was ended by signal {-status}."
    return f"The process ended with status {status}."


def back_off() -> Iterator[float]:
    """How long to wait before each new start, without end."""
    seconds = FIRST_BACK_OFF_SECONDS
    while True:
        yield seconds
        seconds = min(seconds * 2, LONGEST_BACK_OFF_SECONDS)
