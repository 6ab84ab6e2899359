"""PID 1 of a serving pod: starts the engine, tells what it is, restarts it, drains it.

`lifecycle` decides; this module carries out. One task keeps the engine running: each run reads the
file's header anew, starts the process, asks it for its facts, makes a warm-up call, and then
watches until the run ends with a `Fault`. A signal ends the pod: unready at once, then the drain,
then the engine, then exit 0. What no restart of the engine mends ends the pod with 1 and its
reason in the termination log.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from functools import partial
from http import HTTPStatus
from pathlib import Path

from pumas_crds.engine_mode import ModeChoice, ModeRefusal, engine_mode
from pumas_crds.facts import Fault, FileFacts, Inspection, PodDescriptor, PodState, RuntimeFacts
from pumas_crds.vocabulary import RUN_DIR, EngineMode, Reason, Variable
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker import lifecycle
from pumas_server.worker.busy import BusyGauge
from pumas_server.worker.command import build_command
from pumas_server.worker.descriptor_server import CannotListen, DescriptorServer
from pumas_server.worker.engine import EngineNotFound, EngineProgram, find_engine
from pumas_server.worker.engine_client import EngineClient, WarmUpRefused
from pumas_server.worker.engine_process import EngineProcess, write_to_stderr
from pumas_server.worker.exchange import NoAnswer
from pumas_server.worker.first import first
from pumas_server.worker.launch import describe_less_context, select_refused_argument
from pumas_server.worker.legible import legible
from pumas_server.worker.lifecycle import Action, Event, Life, advance, begin_drain
from pumas_server.worker.memory_limit import oom_kills
from pumas_server.worker.model_files import check_files
from pumas_server.worker.place import Place, PlaceFault, read_place, read_worker_spec
from pumas_server.worker.runtime import runtime_facts
from pumas_server.worker.stranger import is_taken
from pumas_server.worker.weights import Refused, report

STARTING_POLL_SECONDS = 0.025
HEALTH_POLL_SECONDS = 2.0
DRAIN_POLL_SECONDS = 0.5
BUSY_FRESH_SECONDS = 2.0
SILENT_POLL_SECONDS = 1.0
ENGINE_GRACE_SECONDS = 5.0
MESSAGE_LIMIT = 512
NAMED_SHOWN = 200
FACT_ROUTES = ("/v1/models", "/props", "/slots")


class Supervisor:
    """One serving pod."""

    def __init__(self, spec: WorkerSpec, place: Place, program: EngineProgram, key: str) -> None:
        self._spec = spec
        self._place = place
        self._program = program
        self._client = EngineClient(place.host, place.engine_port, key)
        self._gauge = BusyGauge(self._client.busy)
        self._life = Life()
        self._file: FileFacts | None = None
        self._mode: ModeChoice | None = None
        self._runtime: RuntimeFacts | None = None
        self._unfit: CannotListen | PlaceFault | None = None

    @property
    def state(self) -> PodState:
        """Where the engine is in its life."""
        return self._life.state

    @property
    def unready_reason(self) -> str:
        """Why the pod is not ready, in a sentence."""
        if self._life.error is not None and self._life.state is not PodState.DRAINING:
            return self._life.error.message
        return f"The engine is {self._life.state}."

    async def descriptor(self) -> PodDescriptor:
        """All that is known."""
        match self._life.state:
            case PodState.READY:
                busy = await self._gauge.read(BUSY_FRESH_SECONDS)
            case PodState.DRAINING:
                busy = await self._gauge.read(DRAIN_POLL_SECONDS)
            case PodState.STARTING | PodState.FAILED:
                busy = 0
        return PodDescriptor(
            spec_hash=self._spec.spec_hash,
            boot_id=self._life.boot_id,
            state=self._life.state,
            busy=busy,
            mode=self._mode.mode if self._mode else None,
            mode_reason=self._mode.why[:256] if self._mode else "",
            file=self._file,
            runtime=self._runtime,
            error=self._life.error,
            restarts=self._life.restarts,
        )

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain.

        Raises `CannotListen` for a taken port, `PlaceFault` when the engine's key is gone.
        """
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        place = self._place
        async with (
            DescriptorServer(self, place.host, place.supervisor_port),
            asyncio.TaskGroup() as tasks,
        ):
            engine = tasks.create_task(self._keep_running())
            engine.add_done_callback(lambda _: stop.set())
            await stop.wait()
            if isinstance(self._tell(lifecycle.StopAsked(time.monotonic())), lifecycle.Drain):
                await first(self._drain(), _until(engine))
            engine.cancel()
        if self._unfit is not None:
            raise self._unfit

    def _tell(self, event: Event) -> Action:
        self._life, action = advance(self._life, event)
        return action

    async def _keep_running(self) -> None:
        action: Action = lifecycle.Start(0)
        while isinstance(action, lifecycle.Start):
            await asyncio.sleep(action.after_seconds)
            try:
                fault = await self._run_once()
            except (CannotListen, PlaceFault) as unfit:
                # Only a new run of this container is given another port, and the key again.
                self._unfit = unfit
                return
            write_to_stderr(f"supervisor: {fault.message}")
            action = self._tell(lifecycle.Failed(time.monotonic(), fault))

    async def _run_once(self) -> Fault:
        """One run of the engine, from the file to the fault that ended it.

        Raises `CannotListen` when another program has the engine's port, `PlaceFault` when the
        engine's key is gone.
        """
        self._runtime = None
        spec = self._spec
        models = str(self._place.models_dir)
        weights = Path(self._spec.weights_file(models))
        try:
            # Read at every start: the file may have been mended since the last.
            look = partial(check_files, spec, models, write_to_stderr, digest=False)
            file = await asyncio.to_thread(look)
        except Refused as refused:
            self._file = self._mode = None
            return refused.fault
        choice = engine_mode(spec.task, file)
        if isinstance(choice, ModeRefusal):
            return Fault(reason=choice.reason, message=choice.message)
        self._file, self._mode = file, choice
        if flag := select_refused_argument(self._program, spec):
            message = f"The engine of this pod does not take {flag} of engine.extraArgs."
            return Fault(reason=Reason.NOT_IMPLEMENTED, message=message)
        if less := describe_less_context(spec, file):
            write_to_stderr(f"supervisor: {less}")
        limits = self._program.limits
        if limits is not None and (refusal := limits.refuse_mode(choice.mode)):
            return Fault(reason=Reason.NOT_IMPLEMENTED, message=refusal)
        command = build_command(
            self._program, spec, choice.mode, file, self._place.launch_settings()
        )
        if limits is not None and (refusal := limits.refuse_command(command)):
            return Fault(reason=Reason.NOT_IMPLEMENTED, message=refusal)
        self._place.read_key()
        if await is_taken(self._place.host, self._place.engine_port):
            port = self._place.engine_port
            raise CannotListen(f"port {port}, the engine's, is another program's")
        kills = oom_kills()
        process = await EngineProcess.start(command, weights)
        try:
            self._gauge = BusyGauge(self._client.busy)
            self._tell(lifecycle.Started(time.monotonic(), secrets.token_hex(8)))
            ended = _ended(process, kills, spec)
            return await first(ended, self._serve(process, file, choice.mode))
        finally:
            await process.stop(ENGINE_GRACE_SECONDS)

    async def _serve(self, process: EngineProcess, file: FileFacts, mode: EngineMode) -> Fault:
        """Bring a started engine to serve, and watch it until it is given up."""
        fault = await first(self._bring_up(process, file, mode), self._watch())
        if fault is not None:
            return fault
        process.ready()
        self._tell(lifecycle.Answered(time.monotonic()))
        return await self._watch()

    async def _bring_up(
        self, process: EngineProcess, file: FileFacts, mode: EngineMode
    ) -> Fault | None:
        while True:
            try:
                if await self._client.health() != HTTPStatus.OK:
                    await asyncio.sleep(STARTING_POLL_SECONDS)
                    continue
                models, props, slots = [await self._client.fact(path) for path in FACT_ROUTES]
                build = self._program.build
                facts = runtime_facts(models, props, slots, file, mode, build)
                device = process.device or facts.device
                self._runtime = facts.model_copy(update={"device": device})
                await self._client.warm_up(mode, facts.limits or ())
                if mode is EngineMode.DECIDE and file.projector is not None:
                    await self._try_senses()
                return None
            except WarmUpRefused as refused:
                return Fault(reason=Reason.ENGINE_FAILED, message=str(refused))
            except NoAnswer as silence:
                write_to_stderr(f"supervisor: {silence}; asking again")
                await asyncio.sleep(SILENT_POLL_SECONDS)

    async def _try_senses(self) -> None:
        """Take back what the engine declares and does not do: not all decision models see."""
        if self._runtime is not None and not await self._client.decides_on_media():
            self._runtime = self._runtime.model_copy(update={"input_modalities": ("text",)})

    async def _watch(self) -> Fault:
        while True:
            await asyncio.sleep(HEALTH_POLL_SECONDS)
            alive = await self._client.health() is not None
            action = self._tell(lifecycle.HealthAsked(time.monotonic(), alive))
            if isinstance(action, lifecycle.GiveUp):
                return action.fault

    async def _drain(self) -> None:
        propagation = self._spec.propagation_seconds
        await asyncio.sleep(propagation)
        wait = begin_drain(time.monotonic(), self._spec.drain_seconds, propagation)
        while True:
            wait = wait.read(await self._gauge.read(0))
            if wait.over(time.monotonic()):
                return
            await asyncio.sleep(DRAIN_POLL_SECONDS)


async def _ended(process: EngineProcess, kills_before: int, spec: WorkerSpec) -> Fault:
    message = await process.ended()
    if oom_kills() > kills_before:
        message = "The engine used more memory than it may and was ended."
        return Fault(reason=Reason.OOM_KILLED, message=message)
    of_projector = spec.projector is not None and "mmproj" in message
    reason = Reason.PROJECTOR_MISMATCH if of_projector else Reason.ENGINE_FAILED
    return Fault(reason=reason, message=message)


async def _until(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})


def main() -> int:
    """Run the pod that the environment describes; returns its exit status."""
    try:
        spec, place = read_worker_spec(os.environ), read_place(os.environ)
        supervisor = Supervisor(
            spec, place, find_engine(os.environ, spec.runtime), place.read_key()
        )
        asyncio.run(supervisor.run())
    except EngineNotFound as fault:
        return _give_up(str(fault), fault.named)
    except (PlaceFault, CannotListen) as fault:
        return _give_up(str(fault))
    return 0


def _give_up(sentence: str, named: str = "") -> int:
    """Tell why no engine can run here: the kubelet all that clients may know, the log the value."""
    shown = f" (it is {legible(named, NAMED_SHOWN)!r})" if named else ""
    write_to_stderr(f"supervisor: {sentence}{shown}")
    message = legible(f"The pod cannot serve: {sentence}.", MESSAGE_LIMIT)
    told = Inspection(error=Fault(reason=Reason.ENGINE_FAILED, message=message))
    try:
        report(told, Path(os.environ.get(Variable.RUN) or RUN_DIR))
    except OSError as error:
        write_to_stderr(f"supervisor: this cannot be told to the kubelet: {error.strerror}")
    return 1
